package serviceaccount

import (
	"encoding/json"
	"net/http"
	"strings"

	"gopkg.in/go-jose/go-jose.v2"
)

// Paths of the discovery documents.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// Configuration is the issuer's discovery document. The keys are where the issuer
// is: who reaches the one reaches the other.
func (i *Issuer) Configuration() ([]byte, error) {
	return json.Marshal(map[string]any{
		"issuer":                                i.name,
		"jwks_uri":                              strings.TrimSuffix(i.name, "/") + KeysPath,
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(jose.ES256)},
	})
}

// Keys is the JSON Web Key Set that checks the issuer's tokens.
func (i *Issuer) Keys() ([]byte, error) {
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key: &i.signer.key.PublicKey, KeyID: i.signer.id, Algorithm: string(jose.ES256), Use: "sig",
	}}})
}

// Discovery serves both documents at their paths.
func (i *Issuer) Discovery() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ConfigurationPath, func(w http.ResponseWriter, _ *http.Request) {
		data, err := i.Configuration()
		answer(w, "application/json", data, err)
	})
	mux.HandleFunc("GET "+KeysPath, func(w http.ResponseWriter, _ *http.Request) {
		data, err := i.Keys()
		answer(w, "application/jwk-set+json", data, err)
	})
	return mux
}

func answer(w http.ResponseWriter, kind string, data []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(data) // a client that went away is no error of ours
}
