package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Middleware is middleware of a node or a plan, see stage.Middleware. Its
// fields are the probabilities, from 0 to 1, of its actions in one attempt of
// one command. Their sum is at most 1. The zero Middleware is none.
type Middleware struct {
	Panic  float64 // panics, before or after it has called the handler
	Answer float64 // answers in the place of the handler
	Again  float64 // calls the handler twice
	Derive float64 // calls the handler with a context derived from its own
	Pass   float64 // only calls the handler
}

func (m Middleware) odds() []float64 { return []float64{m.Panic, m.Answer, m.Again, m.Derive, m.Pass} }

// deeds are what middleware does, in the order of the odds.
var deeds = []string{"panic", "answer", "again", "derive", "pass"}

// String returns the fields that are set, as text.
func (m Middleware) String() string {
	words := []string{"middleware"}
	for i, p := range m.odds() {
		if p > 0 {
			words = append(words, fmt.Sprintf("%s=%v", deeds[i], p))
		}
	}
	return strings.Join(words, " ")
}

// Check returns all invalid fields.
func (m Middleware) Check() error {
	var f faulty
	sum := 0.0
	for i, p := range m.odds() {
		f.unlessf(p >= 0 && p <= 1, "middleware: %s: %v is not a probability from 0 to 1", deeds[i], p)
		sum += p
	}
	f.unlessf(sum <= 1+1e-9, "middleware: the probabilities add up to %v, more than 1", sum)
	return errors.Join(f...)
}

// draw draws what the middleware does in an attempt of a command, and a number.
func (m Middleware) draw(seed uint64, cmd command, attempt int) (deed string, number uint64) {
	rnd := rand.New(rand.NewPCG(seed, oracle.Mix(cmd.key())+uint64(attempt)))
	x := rnd.Float64()
	for i, p := range m.odds() {
		if x -= p; x < 0 {
			return deeds[i], rnd.Uint64()
		}
	}
	return "pass", 0
}

// errMiddleware is what middleware answers and panics with.
var errMiddleware = &stagetest.InjectedError{Fault: stagetest.Panic, Attempt: 1}

// around returns the middleware of a site, or with a nil site the middleware of
// all sites.
func (r *run) around(m Middleware, of *site) stage.MiddlewareFunc {
	return func(ctx context.Context, name string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		where := of
		if where == nil {
			where = r.siteOf(name)
		}
		if where == nil { // a stage that was added
			return next(ctx, cmd)
		}
		cmds, many := cmd.([]command)
		if !many {
			cmds = []command{cmd.(command)}
		}
		o := where.surround(ctx, m, cmds, func(ctx context.Context) behaviour.Outcome { return next(ctx, cmd) }, func() behaviour.Outcome {
			return where.answerAll(cmd)
		})
		if of == nil || r.plan.Middleware == (Middleware{}) {
			where.account(o)
		}
		return o
	}
}

// siteOf returns the site of a stage, or nil.
func (r *run) siteOf(stage string) *site {
	for i, s := range r.sites {
		if name(i) == stage {
			return s
		}
	}
	return nil
}

// surround does what the middleware draws for the first of the commands.
func (s *site) surround(
	ctx context.Context, m Middleware, cmds []command, next func(context.Context) behaviour.Outcome, answer func() behaviour.Outcome,
) behaviour.Outcome {
	deed, number := m.draw(s.run.plan.Seed+uint64(s.index), cmds[0], behaviour.Attempt(ctx))
	switch deed {
	case "panic":
		if number%2 == 0 {
			s.again(cmds)
			next(ctx)
		}
		panic(errMiddleware)
	case "answer":
		if number%2 == 0 {
			return behaviour.Error(errMiddleware)
		}
		return answer()
	case "again":
		s.again(cmds)
		next(ctx)
		return next(ctx)
	case "derive":
		if number%2 == 0 {
			derived, cancel := context.WithTimeoutCause(ctx, time.Duration(number%1000)*time.Microsecond, errMiddleware)
			defer cancel()
			return next(derived)
		}
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		return next(derived)
	default:
		return next(ctx)
	}
}

// again notes that commands may be handled once more than they were sent, and
// that what the first time sent on may be lost.
func (s *site) again(cmds []command) {
	for _, cmd := range cmds {
		s.expect(cmd)
		s.repeats.Add(1)
		s.run.excuse(cmd.ID)
	}
}

// surrounded reports whether the site's handler has middleware that counts the
// outcomes.
func (s *site) surrounded() bool {
	return s.Middleware != (Middleware{}) || s.run.plan.Middleware != (Middleware{})
}

// answerAll answers a command, or each command of a batch, in the place of the
// handler.
func (s *site) answerAll(cmd any) behaviour.Outcome {
	if cmds, ok := cmd.([]command); ok {
		outcomes := make([]behaviour.Outcome, len(cmds))
		for i, c := range cmds {
			s.answered(c)
			outcomes[i] = behaviour.OK(c.ID)
		}
		return behaviour.OK(outcomes)
	}
	c := cmd.(command)
	s.answered(c)
	return behaviour.OK(c.ID)
}

// answered notes that middleware has answered a command.
func (s *site) answered(cmd command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[cmd]++
}
