package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is told of each piece of work that is done, by any goroutine, and in
// the end that there will be no more.
type progress interface {
	step()
	done()
}

// newProgress shows how far a piece of work has come: a bar on a terminal, else
// a plain line now and then.
func newProgress(w io.Writer, title string, total int) progress {
	if isTerminal(w) {
		return newBar(w, title, total)
	}
	return &lines{w: w, title: title, total: total, every: time.Second, last: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

type bar struct{ *progressbar.ProgressBar }

func newBar(w io.Writer, title string, total int) bar {
	return bar{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(title),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("images"),
		progressbar.OptionThrottle(65*time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionOnCompletion(func() { _, _ = fmt.Fprintln(w) }),
	)}
}

func (b bar) step() { _ = b.Add(1) } // a bar that can't be drawn is no reason to fail

// done leaves the bar as it is, so that one that was interrupted shows how far it came.
func (b bar) done() {
	if !b.IsFinished() {
		_ = b.Exit()
	}
}

// lines writes a line at most once in a while.
type lines struct {
	w     io.Writer
	title string
	total int
	every time.Duration

	mu   sync.Mutex // guards what follows
	n    int
	last time.Time
}

func (l *lines) step() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if now := time.Now(); now.Sub(l.last) >= l.every && l.n < l.total {
		l.last = now
		l.print()
	}
}

func (l *lines) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print()
}

func (l *lines) print() {
	_, _ = fmt.Fprintf(l.w, "%s %d of %d\n", l.title, l.n, l.total)
}
