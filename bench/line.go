package main

import "context"

// parcel is the command of most works. It passes from stage to stage by
// pointer.
type parcel struct {
	id    int
	reply chan struct{} // the caller waits here; nil if there is none
	photo *photo        // the picture of W10; nil elsewhere
}

// answer notifies the caller that the parcel has left the last stage.
func (p *parcel) answer() {
	if p.reply != nil {
		p.reply <- struct{}{}
	}
}

// block is the command of W9: a kilobyte, by pointer or by value.
type block [1024]byte

// shape is the description of a line to build: stages in a row.
type shape[C any] struct {
	steps    []step[C]
	capacity int         // commands that wait before each stage, if the implementation has bounds
	deal     func(C) int // where a step has several lanes: the lane that takes the command
	end      func(C)     // called once for each command that leaves the last stage, by any goroutine
	answers  bool        // the caller wants the command back as the result
	codec    codec[C]    // for implementations that carry only bytes
}

// step is one stage, or several equal stages side by side.
type step[C any] struct {
	name    string
	workers int
	lanes   int     // 0 and 1: one stage
	do      func(C) // the work; may be called by several goroutines at once
}

// width returns the number of stages that a step has side by side.
func (s step[C]) width() int { return max(1, s.lanes) }

// lane returns the stage of step i for a command.
func (s shape[C]) lane(i int, c C) int {
	if s.steps[i].lanes <= 1 {
		return 0
	}
	return s.deal(c) % s.steps[i].lanes
}

// last reports whether a step is the last one.
func (s shape[C]) last(i int) bool { return i == len(s.steps)-1 }

// codec converts commands to bytes and back.
type codec[C any] struct {
	encode func(C) []byte
	decode func([]byte) C
}

// line is a line that an implementation has built and started.
type line[C any] struct {
	// submit submits a command, and waits for a free slot if the implementation
	// has bounds. One goroutine submits, except in W5 and W6, where each
	// request has its own.
	submit func(C) error
	// call submits a command and waits for its end, as users of the
	// implementation would; many goroutines may call at once. An error is an
	// answer too, unless ctx has ended. nil: there is no such method, and the
	// command carries a channel for the reply.
	call func(context.Context, C) error
	// flush submits the commands that submit has kept back; nil: it keeps none.
	flush func()
	// spread does all the work of n commands instead of submit; nil: there is a
	// line.
	spread func(n int, next func(i int) C)
	// stop stops the line, once all commands have ended.
	stop func()
	// watch is called when the measurement starts, and returns a function that
	// ends the watching; nil: no watching.
	watch func() (done func())
}

// ask calls the line, with a channel in the command if the line has no call.
func ask(ctx context.Context, l line[*parcel], p *parcel) error {
	if l.call != nil {
		return l.call(ctx, p)
	}
	p.reply = make(chan struct{}, 1)
	if err := l.submit(p); err != nil {
		return err
	}
	if l.flush != nil {
		l.flush()
	}
	select {
	case <-p.reply:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
