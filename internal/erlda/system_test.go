package erlda

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/stage"
)

// world is where systems are started: an Erlang node, or an actor system.
type world interface {
	start(l layout) (system, error)
	close() // ends all that still runs
}

// system is a running pipeline, as a scenario sees it.
type system interface {
	dial() client
	workers(stage string) int    // alive, and known to the stage
	queued(stage string) int     // what waits at the stage's own door
	add(stage string, n int)     // asks for n workers more, or fewer if n < 0
	breakController()            // crashes it, once
	looks() int                  // how often the controller has looked at the stages
	forget()                     // whoever started the system goes away
	accounts() (accounts, error) // what became of all commands
	stop() error
	alive() bool // whether the program that runs it is
}

// client is somebody who sends commands and waits for answers.
type client interface {
	send(stage string, j job) error
	// receive waits patience for the next answer; then it is errSilence.
	receive() (int, error)
}

// patience is how long the original's client waits for an answer.
const patience = 15 * time.Second

var (
	errSilence    = errors.New("no answer in 15 s")
	errBusy       = errors.New("busy")
	errNoAccounts = errors.New("nobody counted")
)

type accounts struct{ accepted, replied, failed, deadLettered uint64 }

// layout says which stages there are. What the original has no words for, it
// does not get: all of its stages have 10 to 200 workers.
type layout struct {
	stages    []spec
	policy    controller.Policy // nil: ERLDA, which the original always has
	rebalance func()            // a policy of the user's own
	restarts  int               // of a whole stage
}

type spec struct {
	name    string
	handle  handler
	fewest  int // workers, 0 means 10
	most    int // 0 means 200
	absent  bool
	options []stage.Option
}

// handler is what a stage does, in words that both understand.
type handler func(ctx context.Context, j job) answer

// job is a command.
type job struct {
	id    int
	verb  verb
	takes time.Duration
}

type verb string

const (
	fine   verb = "fine"   // is answered with its id
	wrong  verb = "wrong"  // is answered with an error
	poison verb = "poison" // crashes its handler
	mute   verb = "mute"   // gets a return value that means nothing
)

// answer is an outcome; the zero answer is none.
type answer struct {
	kind kind
	id   int
	err  error
	next string
	job  job
}

type kind int

const (
	none kind = iota
	ok
	failure
	forward
)

var errWrong = errors.New("wrong")

// work is the handler of most scenarios.
func work(ctx context.Context, j job) answer {
	pause(ctx, j.takes)
	switch j.verb {
	case poison:
		panic("poison")
	case wrong:
		return answer{kind: failure, err: errWrong}
	case mute:
		return answer{}
	default:
		return answer{kind: ok, id: j.id}
	}
}

// to is the handler of a stage that sends everything on.
func to(next string) handler {
	return func(_ context.Context, j job) answer {
		return answer{kind: forward, next: next, job: j}
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// one is a layout of a single stage of the usual kind.
func one(name string) layout { return layout{stages: []spec{{name: name, handle: work}}} }

// call sends a command and waits for its answer.
func call(c client, stage string, j job) (int, error) {
	if err := c.send(stage, j); err != nil {
		return 0, err
	}
	return c.receive()
}

// send sends n commands like j, numbered, without waiting for answers.
func send(c client, stage string, n int, j job) error {
	for i := range n {
		j.id = i
		if err := c.send(stage, j); err != nil {
			return err
		}
	}
	return nil
}

// receive takes n answers and tells how many were good.
func receive(c client, n int) (good int) {
	for range n {
		if _, err := c.receive(); err == nil {
			good++
		}
	}
	return good
}

// ask sends n commands, each of a client of its own, one after the other, and
// tells how many were answered well.
func ask(s system, stage string, n int) (good int) {
	for i := range n {
		if id, err := call(s.dial(), stage, job{id: i}); err == nil && id == i {
			good++
		}
	}
	return good
}

// crash sends poison until n handlers have crashed, and returns what the senders
// were told. In the original some poison never comes to a handler: a dead worker
// takes it.
func crash(s system, stage string, n int, crashed func() int) (told []error) {
	for crashed() < n {
		_, err := call(s.dial(), stage, job{verb: poison})
		told = append(told, err)
	}
	return told
}

// settle lets time pass, and what follows from that.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect is an error unless both are the same.
func expect[T comparable](what string, want, got T) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("%s: want %v, got %v", what, want, got)
}
