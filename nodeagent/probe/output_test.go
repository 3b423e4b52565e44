package probe

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// chatty writes to both outputs at once, as a runtime copies them.
type chatty struct{ lines int }

func (c chatty) Exec(_ context.Context, _ string, cfg runtime.ExecConfig) (int32, error) {
	var wg sync.WaitGroup
	for _, w := range []io.Writer{cfg.IO.Stdout, cfg.IO.Stderr} {
		wg.Go(func() {
			for range c.lines {
				if n, err := w.Write([]byte("0123456789")); n != 10 || err != nil {
					panic("the command is told of an error")
				}
			}
		})
	}
	wg.Wait()
	return 1, nil
}

func TestACommandMayWriteToBothOutputsAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines int // to each
		want  int
	}{
		"little":             {3, 60},
		"more than is kept":  {4096, maxOutput},
		"as much as is kept": {maxOutput / 20, maxOutput},
		"nothing":            {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := askExec(t.Context(), chatty{test.lines}, "1", []string{"x"})
			if a.Err != nil || a.OK || len(a.Output) != test.want {
				t.Errorf("%d bytes, ok %v, %v; want %d bytes of a failure", len(a.Output), a.OK, a.Err, test.want)
			}
			if whole := strings.Repeat("0123456789", test.want/10); a.Output != whole {
				t.Errorf("the output is %q", a.Output)
			}
		})
	}
}

func TestOutputCutsAWriteThatGoesBeyondIt(t *testing.T) {
	t.Parallel()
	var out Output
	for range 2 {
		if n, err := out.Write(bytes.Repeat([]byte("x"), maxOutput-1)); n != maxOutput-1 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if got := len(out.String()); got != maxOutput {
		t.Errorf("%d bytes are kept, want %d", got, maxOutput)
	}
}
