package coro

import "iter"

// Engine turns a function that yields into one that can be resumed: the type of
// [iter.Pull]. next and stop are called by one goroutine at a time. stop makes
// the pending yield return false, and returns when the function has returned.
type Engine func(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func())

// Pull is the engine that switches without the runtime's scheduler.
func Pull(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func()) {
	return iter.Pull(body)
}

// Baton is the engine for tasks or callers that lock OS threads: a goroutine
// that passes a baton back and forth with the goroutine that runs it, over two
// channels. A switch costs several times as much (see BenchmarkSwitch).
func Baton(body iter.Seq[struct{}]) (next func() (struct{}, bool), stop func()) {
	b := &baton{body: body, there: make(chan bool), back: make(chan bool)}
	return b.next, b.stop
}

// baton is held either by the goroutine that runs the body, or by the body.
type baton struct {
	body    iter.Seq[struct{}]
	there   chan bool // to the body: true to continue, false to end
	back    chan bool // from the body: true when it yields, false when it has ended
	started bool
	ended   bool
	stopped bool // used only by the body
}

func (b *baton) next() (struct{}, bool) {
	switch {
	case b.ended:
		return struct{}{}, false
	case !b.started:
		b.started = true
		go b.run()
	default:
		b.there <- true
	}
	alive := <-b.back
	b.ended = !alive
	return struct{}{}, alive
}

func (b *baton) stop() {
	if b.started && !b.ended {
		b.there <- false
		<-b.back
	}
	b.ended = true
}

// run ends in next or stop, whichever is called last.
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
