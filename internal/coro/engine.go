package coro

import "iter"

// Engine turns a function that yields into one that is gone on with: the type of
// [iter.Pull]. next and stop are called by one goroutine at a time. stop has the pending
// yield return false, and returns when the function has.
type Engine func(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func())

// Pull is the engine that switches without the scheduler of the runtime.
func Pull(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func()) {
	return iter.Pull(body)
}

// Baton is the engine for those who lock OS threads: a goroutine that passes a
// baton back and forth with whoever runs it, over two channels. It costs several
// times as much for each switch (see BenchmarkSwitch).
func Baton(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func()) {
	b := &baton{body: body, there: make(chan bool), back: make(chan bool)}
	return b.next, b.stop
}

// baton is held by one of two: who runs the body, and the body.
type baton struct {
	body    iter.Seq[struct{}]
	there   chan bool // to the body: true to go on, false to come to an end
	back    chan bool // from the body: true when it yields, false when it has ended
	begun   bool
	ended   bool
	stopped bool // belongs to the body
}

func (b *baton) next() (struct{}, bool) {
	switch {
	case b.ended:
		return struct{}{}, false
	case !b.begun:
		b.begun = true
		go b.run()
	default:
		b.there <- true
	}
	alive := <-b.back
	b.ended = !alive
	return struct{}{}, alive
}

func (b *baton) stop() {
	if b.begun && !b.ended {
		b.there <- false
		<-b.back
	}
	b.ended = true
}

// run is awaited by next or stop, whichever comes last.
func (b *baton) run() {
	defer func() { b.back <- false }()
	b.body(b.yield)
}

func (b *baton) yield(struct{}) bool {
	if b.stopped {
		return false
	}
	b.back <- true
	b.stopped = !<-b.there
	return !b.stopped
}
