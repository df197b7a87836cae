package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// progress shows how far a task is: a bar on a terminal, or else a plain line
// now and then. It polls the count, so that the task does not depend on it.
type progress struct {
	w      io.Writer
	title  string
	total  int
	count  func() int // how much is done
	width  func() int // of the terminal; nil: not a terminal
	begin  time.Time
	shown  int
	finish chan struct{}
	over   chan struct{}
}

// startProgress shows progress until [progress.done].
func startProgress(w io.Writer, title string, total int, count func() int) *progress {
	p := newProgress(w, title, total, count)
	every := time.Second
	if p.width != nil {
		every = 100 * time.Millisecond
	}
	go p.run(every)
	return p
}

func newProgress(w io.Writer, title string, total int, count func() int) *progress {
	return &progress{
		w: w, title: title, total: total, count: count, width: widthOf(w), begin: time.Now(),
		finish: make(chan struct{}), over: make(chan struct{}),
	}
}

// widthOf returns a function for the current width of a terminal, or nil if w
// is not a terminal.
func widthOf(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 40
		}
		return width
	}
}

func (p *progress) run(every time.Duration) {
	defer close(p.over)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.show(false)
		case <-p.finish:
			p.show(true)
			return
		}
	}
}

// done shows the final count and ends the display.
func (p *progress) done() {
	close(p.finish)
	<-p.over
}

// show shows the count if it has changed, or if it is the last time.
func (p *progress) show(last bool) {
	n := p.count()
	if n == p.shown && !last {
		return
	}
	p.shown = n
	if p.width == nil {
		if last || n < p.total { // the final count is shown once
			_, _ = fmt.Fprintf(p.w, "%s %d of %d\n", p.title, n, p.total) // failing to show progress is no reason to fail
		}
		return
	}
	end := ""
	if last {
		end = "\n"
	}
	_, _ = fmt.Fprint(p.w, "\r", barOf(p.title, n, p.total, time.Since(p.begin), p.width()-1), end)
}

func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return fmt.Sprintf("%.0f/s", rate)
}

const (
	// rateAfter is the time after which a rate is meaningful.
	rateAfter = time.Second
	// mostBar is how many columns a bar takes at most.
	mostBar = 120
)

// barOf returns a bar of exactly that many columns. If the space is too small,
// it leaves out first the bar, then the title, then the rate.
func barOf(title string, n, total int, since time.Duration, columns int) string {
	columns = max(min(columns, mostBar), 0)
	count := fmt.Sprintf("%d/%d", n, total)
	rate := ""
	if since >= rateAfter && n > 0 {
		rate = " " + perSecond(float64(n)/since.Seconds())
	}
	text := title + " " + count + rate
	const least = len(" [====]")
	switch room := columns - utf8.RuneCountInString(text); {
	case room >= least:
		cells := room - len(" []")
		full := cells * min(n, total) / max(total, 1)
		text += " [" + strings.Repeat("=", full) + strings.Repeat(" ", cells-full) + "]"
	case room >= 0:
	case len(count+rate) <= columns:
		text = count + rate
	case len(count) <= columns:
		text = count
	default:
		text = ""
	}
	return text + strings.Repeat(" ", columns-utf8.RuneCountInString(text)) // overwrites the previous text
}
