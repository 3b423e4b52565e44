package fake

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// process is one run of a command: its streams and the signals that reach it.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            map[string]string
	open           func(path string) (io.WriteCloser, error)
	term           chan struct{}
	ignoreTerm     bool
}

// run interprets a command line until it ends or ctx (SIGKILL) does.
func (p *process) run(ctx context.Context, args []string) int32 {
	if len(args) == 0 || args[0] == "/pause" {
		return p.sleep(ctx, 1<<62)
	}
	if len(args) == 3 && (args[0] == "sh" || args[0] == "/bin/sh") && args[1] == "-c" {
		return p.script(ctx, args[2])
	}
	code, _ := p.command(ctx, args)
	return code
}

func (p *process) script(ctx context.Context, text string) int32 {
	var code int32
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n", ";"), ";") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var ended bool
		if code, ended = p.command(ctx, words); ended {
			return code
		}
	}
	return code
}

// command runs one command; ended says that the whole process is over.
func (p *process) command(ctx context.Context, words []string) (code int32, ended bool) {
	switch words[0] {
	case "echo":
		return p.echo(words[1:]), false
	case "sleep":
		d, err := time.ParseDuration(words[1] + "s")
		if err != nil {
			d = 1 << 62 // infinity
		}
		if code := p.sleep(ctx, d); code != 0 {
			return code, true
		}
		return 0, false
	case "exit":
		n, _ := strconv.Atoi(words[1])
		return int32(n), true
	case "trap":
		p.ignoreTerm = true
		return 0, false
	case "cat":
		if in, ok := p.stdin.(io.Closer); ok { // a killed process reads no more
			defer context.AfterFunc(ctx, func() { in.Close() })()
		}
		io.Copy(p.stdout, p.stdin)
		if ctx.Err() != nil {
			return 137, true
		}
		return 0, false
	case "true", "exec", "set", "cd":
		return 0, false
	case "false":
		return 1, false
	}
	fmt.Fprintf(p.stderr, "sh: %s: not found\n", words[0])
	return 127, false
}

func (p *process) echo(words []string) int32 {
	out := p.stdout
	for i, w := range words {
		if w == ">&2" {
			out, words = p.stderr, words[:i]
			break
		}
		if w == ">" && i+1 < len(words) {
			f, err := p.open(words[i+1])
			if err != nil {
				fmt.Fprintln(p.stderr, err)
				return 1
			}
			defer f.Close()
			out, words = f, words[:i]
			break
		}
	}
	text := os.Expand(strings.Join(words, " "), func(k string) string { return p.env[k] })
	fmt.Fprintln(out, strings.Trim(text, `"'`))
	return 0
}

// sleep ends early with the code of the signal that ended it.
func (p *process) sleep(ctx context.Context, d time.Duration) int32 {
	timer := time.NewTimer(d)
	defer timer.Stop()
	term := p.term
	for {
		if p.ignoreTerm {
			term = nil
		}
		select {
		case <-timer.C:
			return 0
		case <-term:
			return 143
		case <-ctx.Done():
			return 137
		}
	}
}
