package host

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// signaturesOf reads the signatures that came with an upload.
func signaturesOf(r *http.Request) ([]v1alpha1.Signature, error) {
	var all []v1alpha1.Signature
	for _, value := range r.Header.Values(signatureHeader) {
		id, encoded, ok := strings.Cut(value, "=")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil {
			return nil, fmt.Errorf("header %s: want KEYID=BASE64", signatureHeader)
		}
		all = append(all, v1alpha1.Signature{KeyID: id, Value: raw})
	}
	return all, nil
}
