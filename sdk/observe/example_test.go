package observe_test

import (
	"fmt"

	"github.com/berth-dev/berth/sdk/observe"
)

// What is asked of the host is given to sdk.Observe; ports go by number or name.
func ExampleHTTPGet() {
	o := observe.HTTPGet("health", "https", "/healthz", observe.HTTPS(), observe.TimeoutSeconds(2))
	fmt.Println(o.Name, o.Kind, o.Scheme, o.Port, o.Path, o.TimeoutSeconds)
	// Output: health http HTTPS https /healthz 2
}
