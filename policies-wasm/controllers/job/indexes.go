package job

import (
	"slices"
	"strconv"
	"strings"
)

// intervals are sets of indexes in ascending order that do not touch.
type intervals []interval

type interval struct{ first, last int }

// parseIndexes reads text such as "1,3-5". What is no index below all is left
// out.
func parseIndexes(text string, all int) (list intervals) {
	for text != "" {
		var part string
		part, text, _ = strings.Cut(text, ",")
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		if first >= all {
			break
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
			last = min(last, all-1)
		}
		if n := len(list); n > 0 && list[n-1].last == first-1 {
			list[n-1].last = last
			continue
		}
		list = append(list, interval{first, last})
	}
	return list
}

// with is the union with indexes, which it puts in order.
func (l intervals) with(indexes []int) intervals {
	slices.Sort(indexes)
	more := make(intervals, len(indexes))
	for i, n := range indexes {
		more[i] = interval{n, n}
	}
	return l.merge(more)
}

func (l intervals) merge(more intervals) (out intervals) {
	for len(l) > 0 || len(more) > 0 {
		var next interval
		if len(more) == 0 || len(l) > 0 && l[0].first < more[0].first {
			next, l = l[0], l[1:]
		} else {
			next, more = more[0], more[1:]
		}
		if n := len(out); n > 0 && next.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, next.last)
			continue
		}
		out = append(out, next)
	}
	return out
}

func (l intervals) total() (sum int) {
	for _, i := range l {
		sum += i.last - i.first + 1
	}
	return sum
}

func (l intervals) has(index int) bool {
	at, _ := slices.BinarySearchFunc(l, index, func(i interval, index int) int { return i.last - index })
	return at < len(l) && l[at].first <= index
}

func (l intervals) text() string {
	var b []byte
	for n, i := range l {
		if n > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(i.first), 10)
		if i.last == i.first {
			continue
		}
		between := byte('-')
		if i.last == i.first+1 {
			between = ','
		}
		b = strconv.AppendInt(append(b, between), int64(i.last), 10)
	}
	return string(b)
}

// overlap is how many indexes both have.
func (l intervals) overlap(other intervals) (sum int) {
	for len(l) > 0 && len(other) > 0 {
		sum += max(min(l[0].last, other[0].last)-max(l[0].first, other[0].first)+1, 0)
		if l[0].last < other[0].last {
			l = l[1:]
		} else {
			other = other[1:]
		}
	}
	return sum
}

// missing are the first so many indexes below all that are not among these.
func (l intervals) missing(count, all int) (indexes []int) {
	next := 0
	for _, i := range append(slices.Clip(l), interval{all, all}) {
		for ; next < min(i.first, all) && len(indexes) < count; next++ {
			indexes = append(indexes, next)
		}
		next = max(next, i.last+1)
	}
	return indexes
}

// met is the first rule of the success policy that is fulfilled, "" if none is.
func (j *job) met() string {
	if len(j.succeededIndexes) == 0 {
		return ""
	}
	for i, rule := range j.successRules {
		count, counts := rule.Object("succeededCount").Number()
		among := j.succeededIndexes.total()
		if rule.Has("succeededIndexes") {
			want := parseIndexes(rule.String("succeededIndexes", ""), j.completions)
			if len(want) == 0 {
				continue
			}
			among = want.overlap(j.succeededIndexes)
			if among == want.total() {
				return strconv.Itoa(i)
			}
		}
		if counts && among >= int(count) {
			return strconv.Itoa(i)
		}
	}
	return ""
}
