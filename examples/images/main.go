// Images is the image pipeline of LEDA (Cruz 2015, section 5.1) in seven stages:
//
//	load → grayscale → threshold220 → blur → threshold70 → invert → save
//
// One command is one file, from -in or a captcha that it draws itself. See the
// README beside this file.
//
// Files by topic: filter.go the filters; job.go the behaviours; plan.go the
// pipeline; source.go what feeds it; report.go what it tells in the end; compare.go
// and child.go several policies side by side; config.go and dirs.go what is refused
// before anything starts; outbox.go how files are written whole; captcha.go and
// corpus.go the captchas.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	box := &outbox{}
	if isChild() {
		os.Exit(child(ctx, cancel, box))
	}
	go interrupts(caught(), os.Stderr, cancel, func() {
		box.abandon()
		os.Exit(show.StatusInterrupted)
	})
	r := &runner{box: box, stdout: os.Stdout, stderr: os.Stderr, limit: limitMemory}
	os.Exit(r.main(ctx, os.Args[1:]))
}

// besides is how much memory a run may take beside the images that are under way.
const besides = 64 << 20

// limitMemory has the garbage collector keep the process below so many bytes, if it can, unless GOMEMLIMIT has set
// another limit. Without one the heap grows to twice of what is in use.
func limitMemory(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}

// caught returns where signals come to. Once it has, none is lost.
func caught() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// interrupts ends the run in good order at the first signal and at once at the
// second, yet without leaving half a file. It lives as long as the process.
func interrupts(signals <-chan os.Signal, stderr io.Writer, finish, abandon func()) {
	<-signals
	_, _ = fmt.Fprint(stderr, "\nimages: interrupted; the images under way are finished; Ctrl-C once more ends at once\n")
	finish()
	<-signals
	abandon()
}
