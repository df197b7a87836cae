package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

type none = struct{}

// errDeadlock ends a dinner at which each philosopher waits for another one.
var errDeadlock = errors.New("deadlock")

// fork is the init of a fork: one philosopher at a time has it, and only that
// one puts it down.
func fork(p *rpc.Process) error {
	holder := 0
	rpc.Func(p, "pickup", func(_ coroutine.Context, philosopher int) (none, error) { holder = philosopher; return none{}, nil })
	rpc.Func(p, "putdown", func(coroutine.Context, int) (none, error) { holder = 0; return none{}, nil })
	p.Guard("pickup", func(func(string) guard.Counters) bool { return holder == 0 })
	p.RequestGuard("putdown", func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args == holder })
	return nil
}

// bothOrNone has the requests of one philosopher for two forks run together.
func bothOrNone(philosopher int, left, right rpc.Address) func(s *synchronizer.Synchronizer) {
	mine := func(r guard.Request) bool { return synchronizer.Args[int](r) == philosopher }
	return func(s *synchronizer.Synchronizer) {
		s.Atomic(synchronizer.Event{Of: left, Method: "pickup", If: mine}, synchronizer.Event{Of: right, Method: "pickup", If: mine})
	}
}

// dine lays the table, and has each philosopher eat.
func (c config) dine(ctx context.Context) (report, error) {
	node, err := rpc.NewNode(rpc.Config{})
	if err != nil {
		return report{}, err
	}
	defer func() { _ = node.Close() }()
	forks := make([]rpc.Address, c.philosophers)
	for i := range forks {
		if forks[i], err = node.Spawn(ctx, fmt.Sprint("fork ", i+1), fork); err != nil {
			return report{}, err
		}
	}
	seats := make([]seat, c.philosophers)
	for i := range seats {
		seats[i] = seat{i + 1, forks[i], forks[(i+1)%c.philosophers]}
		if c.separately {
			continue
		}
		name := fmt.Sprint("philosopher ", i+1)
		if _, err = node.Synchronize(ctx, name, bothOrNone(i+1, seats[i].left, seats[i].right)); err != nil {
			return report{}, err
		}
	}
	return c.serve(ctx, seats)
}

// serve has all philosophers eat at the same time.
func (c config) serve(ctx context.Context, seats []seat) (report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	d := dinner{config: c, calm: time.AfterFunc(c.patience, func() { cancel(errDeadlock) }), waited: make([]int, len(seats))}
	errs := make([]error, len(seats))
	var all sync.WaitGroup
	for i, s := range seats {
		all.Go(func() { errs[i] = d.attend(coroutine.Blocking(ctx), s) })
	}
	all.Wait()
	d.calm.Stop()
	r := report{c.philosophers, d.meals, d.most, d.longest, time.Since(start).Milliseconds()}
	err := errors.Join(errs...)
	if errors.Is(err, errDeadlock) {
		err = fmt.Errorf("%w: no philosopher has eaten for %v", errDeadlock, c.patience)
		if c.separately {
			err = fmt.Errorf("%w; this is intended: with -separately each may have one fork and wait for the other", err)
		}
	}
	return r, err
}

// seat is a philosopher's place.
type seat struct {
	philosopher int
	left, right rpc.Address
}

// dinner is one dinner at the table.
type dinner struct {
	config

	calm *time.Timer // ends the dinner

	mu      sync.Mutex // guards the fields below
	eating  int
	most    int
	meals   int
	waited  []int // how many meals the philosopher has seen since it last ate, by philosopher
	longest int
}

// attend has a philosopher eat all its meals.
func (d *dinner) attend(c coroutine.Context, s seat) error {
	for range d.config.meals {
		if err := d.both(c, s, "pickup"); err != nil {
			return err
		}
		d.begin(s)
		if err := coroutine.Sleep(c, d.eat); err != nil {
			return err
		}
		d.end()
		if err := d.both(c, s, "putdown"); err != nil {
			return err
		}
	}
	return nil
}

// both calls a function of both forks: at once, or of the left one first.
func (d *dinner) both(c coroutine.Context, s seat, method string) error {
	left, right := rpc.At[int, none](s.left, method), rpc.At[int, none](s.right, method)
	first := left.Future(c, s.philosopher)
	if d.separately {
		if _, err := first.Wait(c); err != nil {
			return err
		}
		_ = coroutine.Sleep(c, d.eat) // so that the others have their left fork too
	}
	_, err := right.Call(c, s.philosopher)
	if err != nil {
		return err
	}
	_, err = first.Wait(c)
	return err
}

func (d *dinner) begin(s seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calm.Reset(d.patience)
	d.meals++
	d.eating++
	d.most = max(d.most, d.eating)
	d.longest = max(d.longest, d.waited[s.philosopher-1])
	for i := range d.waited {
		d.waited[i]++
	}
	d.waited[s.philosopher-1] = 0
}

func (d *dinner) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.eating--
}
