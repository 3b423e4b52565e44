package kind

import (
	"math/rand"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Stored objects are read by many at once: a conversion that writes to what it
// converts is seen by the race detector.
func TestConvertingChangesNothingOfWhatIsStored(t *testing.T) {
	t.Parallel()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(Scheme)).NumElements(1, 2).MaxDepth(8)
	for _, k := range All {
		if k.Strategy == nil {
			continue
		}
		for range 3 {
			obj := k.New()
			fill.Fill(obj)
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if _, err := k.Internal(obj); err != nil {
						t.Errorf("%s: %v", k.Name, err)
					}
				})
			}
			both.Wait()
		}
	}
}
