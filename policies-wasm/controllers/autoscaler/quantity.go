package autoscaler

import (
	"math"
	"strconv"
	"strings"
)

// Powers of ten of a quantity's thousandths and billionths.
const (
	milli = 3
	nano  = 9
)

// quantity reads an amount such as 250m, 1.5Gi or 2e3, in units of ten to the
// power of -digits, rounded up; 0 for what is none.
func quantity(text string, digits int) int64 {
	end := 0
	for end < len(text) && strings.IndexByte("+-.0123456789", text[end]) >= 0 {
		end++
	}
	number, suffix := text[:end], text[end:]
	power, factor, ok := scale(suffix)
	whole, fraction, _ := strings.Cut(number, ".")
	mantissa, err := strconv.ParseInt(whole+fraction, 10, 64)
	if !ok || err != nil {
		return 0
	}
	power += digits - len(fraction)
	mantissa = times(mantissa, factor)
	for ; power > 0; power-- {
		mantissa = times(mantissa, 10)
	}
	rest := false
	for ; power < 0; power++ {
		rest = rest || mantissa%10 != 0
		mantissa /= 10
	}
	if rest && mantissa >= 0 {
		mantissa++
	}
	return mantissa
}

func times(n, by int64) int64 {
	if n > math.MaxInt64/by {
		return math.MaxInt64
	}
	return n * by
}

// scale is what a suffix stands for: a power of ten, or a factor.
func scale(suffix string) (power int, factor int64, ok bool) {
	const decimal, binary = "num.kMGTPE", "KMGTPE"
	switch {
	case suffix == "":
		return 0, 1, true
	case len(suffix) == 1 && suffix != "." && strings.Contains(decimal, suffix):
		return 3*strings.Index(decimal, suffix) - 9, 1, true
	case len(suffix) == 2 && suffix[1] == 'i' && strings.IndexByte(binary, suffix[0]) >= 0:
		return 0, 1 << (10 * (strings.IndexByte(binary, suffix[0]) + 1)), true
	case suffix[0] == 'e' || suffix[0] == 'E':
		n, err := strconv.Atoi(suffix[1:])
		return n, 1, err == nil && n > -100 && n < 100
	}
	return 0, 0, false
}

// amount writes thousandths of a resource as Kubernetes does.
func amount(resource string, n int64) string {
	if resource != "memory" || n%1000 != 0 {
		if n%1000 == 0 {
			return strconv.FormatInt(n/1000, 10)
		}
		return strconv.FormatInt(n, 10) + "m"
	}
	n /= 1000
	unit := 0
	for n != 0 && n%1024 == 0 && unit < 6 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + string("KMGTPE"[unit-1]) + "i"
}

// decimal writes thousandths as Kubernetes does: with the largest suffix that
// leaves a whole number.
func decimal(n int64) string {
	if n == 0 {
		return "0"
	}
	unit := 0
	for unit < 7 && n%1000 == 0 {
		n, unit = n/1000, unit+1
	}
	return strconv.FormatInt(n, 10) + [...]string{"m", "", "k", "M", "G", "T", "P", "E"}[unit]
}
