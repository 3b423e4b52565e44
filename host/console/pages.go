package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed web
var web embed.FS

// asset is one file of the pages.
type asset struct {
	data      []byte
	mediaType string
	etag      string
}

// mediaTypes stand here, for what the machine's own table says may be anything.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// assets are the pages by their path below Root.
var assets = readAssets()

func readAssets() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := web.ReadFile(name)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(name, "web/")] = asset{data, mediaTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // it is in the binary
	}
	return all
}

// policyOfContent lets the pages load from here alone, and makes what is not meant
// as markup unable to become it.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// page answers with a file of the pages.
func page(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Root)
	if name == "" {
		name = "index.html"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policyOfContent)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	file, ok := assets[name]
	if !ok {
		http.Error(w, "the console has no such page: "+Root+" is where it begins", http.StatusNotFound)
		return
	}
	h.Set("Content-Type", file.mediaType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", file.etag)
	if r.Header.Get("If-None-Match") == file.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(file.data) // whoever left does not want it
}
