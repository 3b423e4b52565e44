package host_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// What kubectl sends of a Module: with its bytes, without, again, and changed.
func TestAModuleIsWhatItsNameSays(t *testing.T) {
	t.Parallel()
	_, serving, _ := start(t, t.TempDir())
	const modules = "/apis/policy.berth.dev/v1alpha1/modules"
	wasm := policytest.Guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	object := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Module","metadata":{"name":%q},"spec":%s}`, name, spec)
	}
	inline := fmt.Sprintf(`{"wasm":%q}`, base64.StdEncoding.EncodeToString(wasm))
	other := fmt.Sprintf(`{"wasm":%q}`, base64.StdEncoding.EncodeToString(policytest.Guest{Name: "made", Version: "2", Refuse: -1}.Bytes()))
	named := "sha256-" + digest
	for _, step := range []struct{ what, method, path, body, want string }{
		{"without bytes", "POST", modules, object(named, `{"digest":"sha256:`+digest+`"}`), "400"},
		{"of no digest", "POST", modules, object("pretty", `{}`), "400"},
		{"by another name", "POST", modules, object("pretty", inline), "400"},
		{"of other bytes than its name", "POST", modules, object(named, other), "400"},
		{"with its bytes", "POST", modules, object(named, inline), "201"},
		{"put again", "PUT", modules + "/" + named, object(named, inline), "200"},
		{"put with other bytes", "PUT", modules + "/" + named, object(named, other), "422"},
		{"deleted", "DELETE", modules + "/" + named, "", "200"},
		{"back while its bytes are here", "POST", modules, object(named, `{"digest":"sha256:`+digest+`"}`), "201"},
	} {
		code, text := ask(t, serving, step.method, step.path, step.body)
		if fmt.Sprint(code) != step.want {
			t.Errorf("a module %s = %d %.300s, want %s", step.what, code, text, step.want)
		}
		if strings.Contains(text, base64.StdEncoding.EncodeToString(wasm)) {
			t.Errorf("a module %s is answered with its bytes", step.what)
		}
	}
	var m v1alpha1.Module
	code, text := ask(t, serving, "GET", modules+"/"+named, "")
	if err := json.Unmarshal([]byte(text), &m); code != http.StatusOK || err != nil {
		t.Fatalf("GET = %d %s", code, text)
	}
	if m.Status.Phase != "Accepted" || len(m.Status.Entries) != 1 || m.Spec.Size != int64(len(wasm)) || len(m.Spec.Wasm) != 0 {
		t.Errorf("module = %+v", m)
	}
}
