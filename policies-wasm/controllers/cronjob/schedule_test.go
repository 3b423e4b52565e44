package cronjob

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/berth-dev/berth/sdk/json"
)

// More are compared with `go test -run RobfigCron -schedules 100000`.
var schedules = flag.Uint64("schedules", 3000, "how many random schedules are compared with robfig/cron")

// zones are ones whose clocks are changed: in both hemispheres, at midnight, by
// half an hour, and not at all.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo",
	"Asia/Beirut", "America/Havana", "Europe/London", "Africa/Casablanca", "America/Santiago", "Asia/Kathmandu",
	"Antarctica/Troll", "Europe/Dublin", "Atlantic/Azores",
}

// zoneFact is a zone as the host gives it, found by looking at each quarter of an hour.
func zoneFact(t *testing.T, where *time.Location) (z zone) {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if z, ok := made.zones[where.String()]; ok {
		return z
	}
	for at := time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC).In(where); at.Year() < 2045; at = at.Add(15 * time.Minute) {
		if _, seconds := at.Zone(); len(z) == 0 || z[len(z)-1].seconds != int64(seconds) {
			z = append(z, change{at.Unix(), int64(seconds)})
		}
	}
	made.zones[where.String()] = z
	return z
}

var made = struct {
	sync.Mutex
	zones map[string]zone
}{zones: map[string]zone{}}

// invented is a random schedule, which need not be a good one.
func invented(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		texts := []string{
			"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@every 90s", "@every 1h30m", "@every 100ms",
			"@every -5m", "@every 1.5h", "@often", "@every", "", "* * * *", "* * * * * *",
		}
		return texts[r.IntN(len(texts))]
	}
	words := [][]string{nil, nil, nil, {"jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC"}, {"sun", "MON", "Tue", "wed", "thu", "fri", "sat"}}
	var parts []string
	for i, bounds := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		number := func() string {
			if r.IntN(100) == 0 {
				return []string{"-1", "60", "x", "", "+5", "sun", "007", "*"}[r.IntN(8)]
			}
			if words[i] != nil && r.IntN(4) == 0 {
				return words[i][r.IntN(len(words[i]))]
			}
			return fmt.Sprint(bounds[0] + r.IntN(bounds[1]-bounds[0]+1))
		}
		var terms []string
		for range 1 + r.IntN(3)*r.IntN(2) {
			term := []string{"*", "?", number(), number(), number() + "-" + number(), "*"}[r.IntN(6)]
			if r.IntN(4) == 0 {
				term += fmt.Sprintf("/%d", r.IntN(20))
			}
			terms = append(terms, term)
		}
		if i > 1 && r.IntN(3) > 0 {
			terms = []string{"*"}
		}
		parts = append(parts, strings.Join(terms, ","))
	}
	return strings.Join(parts, " ")
}

// near is a time within a day of when a zone's clocks are changed, or any.
func near(r *rand.Rand, z zone) int64 {
	at := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC).Unix() + r.Int64N(20*365*86400)
	if c, _ := z.find(at); len(z) > 1 && r.IntN(3) > 0 {
		at = c.since + r.Int64N(2*86400) - 86400
	}
	return at
}

func TestSchedulesAreThoseOfRobfigCron(t *testing.T) {
	t.Parallel()
	good := 0
	for seed := range *schedules {
		r := rand.New(rand.NewPCG(seed, 7))
		text := invented(r)
		where, err := time.LoadLocation(zones[r.IntN(len(zones))])
		if err != nil {
			t.Fatal(err)
		}
		z := zoneFact(t, where)
		want, wantErr := cron.ParseStandard(fmt.Sprintf("TZ=%s %s", where, text))
		got, err := parse(text, z)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("seed %d: parse(%q) = %v, want %v", seed, text, err, wantErr)
		}
		if err != nil {
			continue
		}
		good++
		at := near(r, z)
		for range 5 {
			next, wanted := got.next(at), want.Next(time.Unix(at, 0))
			if wanted.IsZero() != (next == never) || next != never && next != wanted.Unix() {
				t.Fatalf("seed %d: %q in %s: next(%s) = %s, want %s", seed, text, where, time.Unix(at, 0).In(where), time.Unix(next, 0).In(where), wanted.In(where))
			}
			if at = next; at == never {
				break
			}
		}
	}
	if uint64(good) < *schedules/2 {
		t.Errorf("%d of %d schedules can be read: the test looks at too few", good, *schedules)
	}
}

// TestADayThatIsLeftOut is one at which robfig/cron does not come to an end.
func TestADayThatIsLeftOut(t *testing.T) {
	t.Parallel()
	apia, err := time.LoadLocation("Pacific/Apia")
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse("0 12 1 * *", zoneFact(t, apia))
	if err != nil {
		t.Fatal(err)
	}
	got := time.Unix(s.next(time.Date(2011, 12, 2, 0, 0, 0, 0, apia).Unix()), 0)
	if want := time.Date(2012, 1, 1, 12, 0, 0, 0, apia); !got.Equal(want) {
		t.Errorf("next is %s, want %s", got.In(apia), want)
	}
}

func FuzzParse(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(invented(rand.New(rand.NewPCG(seed, 7))))
	}
	f.Add("0 0--0 1 1 0") // minus nothing is a number to strconv
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") || len(text) > 100 {
			return
		}
		want, wantErr := cron.ParseStandard(text)
		got, err := parse(text, nil)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("parse(%q) = %v, want %v", text, err, wantErr)
		}
		if at := time.Date(2026, 2, 28, 23, 59, 1, 0, time.UTC); err == nil {
			next, wanted := got.next(at.Unix()), want.Next(at)
			if wanted.IsZero() != (next == never) || next != never && next != wanted.Unix() {
				t.Fatalf("next of %q is %s, want %s", text, time.Unix(next, 0).UTC(), wanted)
			}
		}
	})
}

func TestTheZoneIsReadFromTheFact(t *testing.T) {
	t.Parallel()
	fact, err := json.Parse([]byte(`[[1735689600,3600],[1743296400,7200]]`))
	if err != nil {
		t.Fatal(err)
	}
	z, err := readZone(fact)
	if err != nil || len(z) != 2 || z[1] != (change{1743296400, 7200}) {
		t.Errorf("zone is %v, %v", z, err)
	}
	if got := inZone(1743296400, z); got != "2025-03-30T03:00:00+02:00" {
		t.Errorf("the change is shown as %s", got)
	}
}
