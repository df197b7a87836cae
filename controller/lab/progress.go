package lab

import (
	"fmt"
	"io"
	"os"
)

// progress writes how far an experiment is: a line that changes on a terminal,
// and else a line for each run.
type progress struct {
	w        io.Writer
	terminal bool
	all, n   int
	now      string // the run that is measured
	width    int    // of the last line on a terminal
}

func newProgress(w io.Writer, all int) *progress {
	return &progress{w: w, terminal: isTerminal(w), all: all}
}

// isTerminal reports whether a line that was written can be replaced.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// begin is called before a run.
func (p *progress) begin(candidate string, round int) {
	p.n++
	p.now = fmt.Sprintf("%d of %d  %s, run %d", p.n, p.all, candidate, round+1)
	if p.terminal {
		p.line(p.now + " …")
	}
}

// ended is called after it.
func (p *progress) ended(r *Run) {
	text := fmt.Sprintf("%s: %.1f %% good, p99 %.2f ms", p.now, r.figures[goodShare], r.figures[p99])
	if p.terminal {
		p.line(text)
	} else {
		_, _ = fmt.Fprintln(p.w, text) // no progress is no reason to stop
	}
}

// line replaces the line on a terminal.
func (p *progress) line(text string) {
	_, _ = fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len([]rune(text))
}

// end clears the line on a terminal.
func (p *progress) end() {
	if p.terminal && p.width > 0 {
		p.line("")
		_, _ = fmt.Fprint(p.w, "\r")
	}
}
