package autoscaler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQuantitiesAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E2", "e-2"}
	for range 20_000 {
		text := fmt.Sprint(r.IntN(5000))
		if r.IntN(2) == 0 {
			text += fmt.Sprintf(".%0*d", 1+r.IntN(3), r.IntN(10))
		}
		text += suffixes[r.IntN(len(suffixes))]
		want, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := quantity(text, milli); got != want.MilliValue() {
			t.Fatalf("quantity(%q) = %d thousandths, want %d", text, got, want.MilliValue())
		}
	}
	for _, text := range []string{"", "x", "1x", "1..2", "m", "1mi", "-", "1e", "1e1000"} {
		if got := quantity(text, milli); got != 0 {
			t.Errorf("quantity(%q) = %d, want 0", text, got)
		}
	}
}

func TestAmountsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		n := r.Int64N(1 << (10 + r.IntN(32)))
		if r.IntN(2) == 0 {
			n *= 1000 * 1024
		}
		for _, name := range []string{"cpu", "memory"} {
			text := amount(name, n)
			if got := resource.MustParse(text); got.MilliValue() != n {
				t.Fatalf("%d thousandths of %s are written %s", n, name, text)
			}
		}
	}
	for n, want := range map[int64]string{64 << 20: "67108864m", 64 << 20 * 1000: "64Mi", 1500: "1500m", 0: "0", 3000: "3"} {
		name := "memory"
		if n == 1500 {
			name = "cpu"
		}
		if got := amount(name, n); got != want {
			t.Errorf("amount(%s, %d) = %s, want %s", name, n, got, want)
		}
	}
}
