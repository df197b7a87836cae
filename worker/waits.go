package worker

import (
	"bytes"
	"reflect"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
)

// Handlers finds the stacks of the handlers that run in the workers, and of those of the stages that are suspended. It
// stops the world as [Stacks] does.
func Handlers(workers []*Worker, stages []*Stage) (running map[*Worker][]byte, suspended map[*Run][]byte) {
	runs := map[uint64]*Run{}
	for _, s := range stages {
		s.eachRun(func(run *Run) { runs[address(run)] = run })
	}
	return find(workers, runs)
}

// eachRun calls f with each run of the stage that has not ended.
func (s *Stage) eachRun(f func(*Run)) {
	if s.Runs != nil {
		s.Runs.Each(func(t *coro.Task) { f(t.Tag.(*Run)) })
	}
}

// Stage is the name of the run's stage.
func (run *Run) Stage() string { return run.stage.Inbox.Name() }

// Await says what a goroutine waits for.
type Await uint8

// What a goroutine may wait for.
const (
	Nothing Await = iota // that is known
	Slot                 // a free slot of the inbox at the address
	Answer               // the ticket at the address
)

// awaits are the methods in which a goroutine waits. The first argument of each is what it waits for.
var awaits = []struct {
	method []byte
	of     Await
}{
	{[]byte("\n" + modulePath + "internal/inbox.(*Inbox).await("), Slot},
	{[]byte("\n" + modulePath + "internal/inbox.(*Inbox).awaitUse("), Slot},
	{[]byte("\n" + modulePath + "internal/inbox.(*Inbox).waitToEnter("), Slot},
	{[]byte("\n" + modulePath + "internal/command.(*Ticket).Wait("), Answer},
	{[]byte("\n" + modulePath + "stage.waitAside("), Answer},
}

// Awaits finds in a stack what its goroutine waits for, and the address of that. As [Stacks] does, it reads the first
// argument of a method, so that nothing need be noted while handlers run.
func Awaits(stack []byte) (what Await, address uint64) {
	first := len(stack)
	for _, a := range awaits {
		if i := bytes.Index(stack, a.method); i >= 0 && i < first {
			first, what = i, a.of
			address = firstArgument(stack[i+len(a.method)-1:])
		}
	}
	return what, address
}

// address is where a value is, as stacks have it.
func address[T any](at *T) uint64 { return uint64(reflect.ValueOf(at).Pointer()) }

// Holds reports whether a command of the ticket at an address is at the stage.
func (s *Stage) Holds(ticket uint64) (held bool) {
	of := func(e *command.Envelope) bool { return e.Ticket() != nil && address(e.Ticket()) == ticket }
	s.eachRun(func(run *Run) { held = held || of(&run.envelope) })
	return held || s.Inbox.Has(of)
}

// IsAt reports whether the stage's room is at an address.
func (s *Stage) IsAt(room uint64) bool { return address(s.Inbox) == room }
