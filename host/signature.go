package host

import (
	"fmt"
	"net/http"

	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// signaturesOf reads the signatures that came with an upload.
func signaturesOf(r *http.Request) ([]v1alpha1.Signature, error) {
	var all []v1alpha1.Signature
	for _, value := range r.Header.Values(signatureHeader) {
		s, err := module.ParseSignature(value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", signatureHeader, err)
		}
		all = append(all, s)
	}
	return all, nil
}
