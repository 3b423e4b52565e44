package engine

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
)

// FuzzCacheFile finds anything in an entry's place: code comes out only as it was
// put in, and whatever else was there is gone.
func FuzzCacheFile(f *testing.F) {
	c, err := openCache(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256([]byte("code"))
	f.Add(append(sum[:], "code"...))
	f.Add(append(sum[:], "cope"...))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(c.dir, "entry")
		if err := os.WriteFile(path, file, privateFile); err != nil {
			t.Fatal(err)
		}
		entry := c.get("entry")
		if entry == nil {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%d broken bytes are still there: %v", len(file), err)
			}
			return
		}
		if sum := sha256.Sum256(entry); !bytes.Equal(file, append(sum[:], entry...)) {
			t.Errorf("%d bytes come out as code of %d", len(file), len(entry))
		}
	})
}
