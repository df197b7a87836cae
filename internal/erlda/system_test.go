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
	close() // ends everything that still runs
}

// system is a running pipeline, as a scenario sees it.
type system interface {
	dial() client
	workers(stage string) int    // alive, and known to the stage
	queued(stage string) int     // commands that wait in the stage's own queue
	add(stage string, n int)     // adds n workers, or removes some if n < 0
	breakController()            // crashes it, once
	ticks() int                  // how many ticks the controller has had
	forget()                     // the goroutine or process that started the system ends
	accounts() (accounts, error) // the outcomes of all commands
	stop() error
	alive() bool // whether the program that runs it is alive
}

// client sends commands and waits for answers.
type client interface {
	send(stage string, j job) error
	// receive waits patience for the next answer; then it returns errSilence.
	receive() (int, error)
}

// patience is how long the original's client waits for an answer.
const patience = 15 * time.Second

var (
	errSilence    = errors.New("no answer in 15 s")
	errBusy       = errors.New("busy")
	errNoAccounts = errors.New("there are no accounts")
)

type accounts struct{ accepted, replied, failed, deadLettered uint64 }

// layout lists the stages. The original gets only the settings that it supports: all of its stages have 10 to 200
// workers.
type layout struct {
	stages    []spec
	policy    controller.Policy // nil: ERLDA, which the original always has
	rebalance func()            // a custom policy
	restarts  int               // restarts of a whole stage
}

type spec struct {
	name    string
	handle  handler
	fewest  int // workers, 0 means 10
	most    int // 0 means 200
	absent  bool
	options []stage.Option
}

// handler is what a stage does, in a form that both systems support.
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
	mute   verb = "mute"   // gets an invalid return value
)

// answer is an outcome; the zero answer is an invalid one.
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

// to is the handler of a stage that forwards everything.
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

// one is a layout of a single default stage.
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

// receive takes n answers and returns how many were good.
func receive(c client, n int) (good int) {
	for range n {
		if _, err := c.receive(); err == nil {
			good++
		}
	}
	return good
}

// ask sends n commands, each from a client of its own, one after the other, and returns how many were answered well.
func ask(s system, stage string, n int) (good int) {
	for i := range n {
		if id, err := call(s.dial(), stage, job{id: i}); err == nil && id == i {
			good++
		}
	}
	return good
}

// crash sends poison until n handlers have crashed, and returns the senders' results. In the original some poison never
// reaches a handler: a dead worker takes it.
func crash(s system, stage string, n int, crashed func() int) (results []error) {
	for crashed() < n {
		_, err := call(s.dial(), stage, job{verb: poison})
		results = append(results, err)
	}
	return results
}

// settle lets time pass and waits until all goroutines are blocked.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect returns an error unless both values are the same.
func expect[T comparable](what string, want, got T) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("%s: want %v, got %v", what, want, got)
}
