// Images is the image pipeline of LEDA (Cruz 2015, section 5.1) in seven stages:
//
//	load → grayscale → threshold220 → blur → threshold70 → invert → save
//
// One command is one file, from -in or a captcha that it draws itself. See the
// README beside this file.
//
// Files by topic: filter.go the filters; job.go the behaviours; plan.go the
// pipeline; source.go what feeds it; report.go what it tells in the end; config.go and
// dirs.go what is refused before anything starts; outbox.go how files are
// written whole; captcha.go and corpus.go the captchas.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	box := &outbox{}
	go interrupts(cancel, box)
	os.Exit(run(ctx, os.Args[1:], box, os.Stdout, os.Stderr))
}

// interrupts ends the run in good order at the first signal and at once at the
// second, yet without leaving half a file. It lives as long as the process.
func interrupts(cancel context.CancelFunc, box *outbox) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	cancel()
	<-signals
	box.abandon()
	os.Exit(statusInterrupted)
}
