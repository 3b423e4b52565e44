// Command termsvg draws a terminal session as SVG: text stays text, and the
// picture brings its own background, so that it can be read on a light page and
// on a dark one.
//
//	termsvg [-title TEXT] <session.txt >session.svg
//
// A line that begins with "$ " is a command.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

func main() {
	title := flag.String("title", "a terminal session", "what the picture shows, for readers who do not see it")
	flag.Parse()
	lines, err := read(os.Stdin)
	if err == nil {
		err = draw(os.Stdout, *title, lines)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "termsvg:", err)
		os.Exit(1)
	}
}

func read(r io.Reader) (lines []string, err error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		lines = append(lines, strings.TrimRight(s.Text(), " \t\r"))
	}
	return lines, s.Err()
}

// Sizes in pixels. A monospaced letter is 0.6 of its height wide in nearly all
// fonts; a line is as wide as that says, whichever font the reader has.
const (
	letter  = 7.8
	height  = 18
	margin  = 16
	topLine = 36
)

func draw(w io.Writer, title string, lines []string) error {
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	width, tall := float64(columns)*letter+2*margin, topLine+len(lines)*height+margin/2
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">
<title>%s</title>
<style>
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre; }
  .command { fill: #7ee787; font-weight: 600; }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117" stroke="#30363d"/>
<circle cx="20" cy="16" r="5" fill="#484f58"/><circle cx="36" cy="16" r="5" fill="#484f58"/><circle cx="52" cy="16" r="5" fill="#484f58"/>
`, width, tall, width, tall, escape(title))
	for i, line := range lines {
		if line == "" {
			continue
		}
		class := ""
		if strings.HasPrefix(line, "$ ") {
			class = ` class="command"`
		}
		fmt.Fprintf(out, `<text x="%d" y="%d"%s xml:space="preserve" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			margin, topLine+i*height+height/2, class, float64(utf8.RuneCountInString(line))*letter, escape(line))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace
