// Images is the image pipeline of LEDA (Cruz 2015, section 5.1) in seven
// stages:
//
//	load → grayscale → threshold220 → blur → threshold70 → invert → save
//
// One command is one file, from -in or a captcha that it draws itself. See the
// README beside this file.
//
// Files by topic: picture has the filters; job.go the behaviours; plan.go the
// pipeline; source.go its source; report.go the report at the end; compare.go
// and child.go several policies side by side; config.go and dirs.go the checks
// before anything starts; outbox.go how files are written whole; captcha and
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

// besides is how much memory a run may take in addition to the images in
// progress.
const besides = 64 << 20

// limitMemory makes the garbage collector keep the process below a number of
// bytes, if it can, unless GOMEMLIMIT has set another limit. Without a limit
// the heap grows to twice the memory in use.
func limitMemory(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}

// caught returns a channel that receives the signals. Once it has returned, no
// signal is lost.
func caught() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// interrupts ends the run cleanly at the first signal and at once at the
// second, without leaving a partial file. It runs as long as the process.
func interrupts(signals <-chan os.Signal, stderr io.Writer, finish, abandon func()) {
	<-signals
	_, _ = fmt.Fprint(stderr, "\nimages: interrupted; the images under way are finished; Ctrl-C once more ends at once\n")
	finish()
	<-signals
	abandon()
}
