// Tasks is the bounded buffer, with cooperative tasks and two counting semaphores: producers
// wait for a free place, the consumer for a used one.
//
//	go run ./examples/tasks
//	go run ./examples/tasks -producers 3 -items 4 -places 1
//	go run ./examples/tasks -seed 7        # another order, the same each time
//
// No task is interrupted between two suspensions, so the buffer itself needs no lock.
// The consumer prints what it takes: producer and item. If -take says that it shall take more than there will be, all wait for
// ever, and the program says so.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const (
	statusOK = iota
	statusFailed
	statusUsage
)

// config is what the flags say.
type config struct {
	producers, items, places, take int
	seed                           uint64
}

// run is the program, from its arguments to its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "tasks:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return statusUsage
	}
	if err := c.work(stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "tasks:", err)
		return statusFailed
	}
	return statusOK
}

// work has producers and a consumer share a buffer.
func (c config) work(stdout io.Writer) error {
	cfg := scheduler.Config{MaxPool: 8}
	if c.seed > 0 {
		cfg.Rand = rand.New(rand.NewPCG(c.seed, 0))
	}
	s := scheduler.New(cfg)
	defer s.Close()
	b := newBuffer(c.places)
	for p := range c.producers {
		s.Go(func(task coroutine.Context) {
			for i := range c.items {
				if b.put(task, fmt.Sprintf("producer %d, item %d", p, i)) != nil {
					return // the program ends
				}
			}
		})
	}
	s.Go(func(task coroutine.Context) {
		for range c.take {
			item, err := b.get(task)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(stdout, item)
		}
	})
	return s.Loop()
}

// buffer has a bounded number of places.
type buffer struct {
	free, used *scheduler.Semaphore
	items      []string
}

func newBuffer(places int) *buffer {
	return &buffer{free: scheduler.NewSemaphore(places), used: scheduler.NewSemaphore(0)}
}

// put waits for a free place.
func (b *buffer) put(c coroutine.Context, item string) error {
	if err := b.free.Acquire(c); err != nil {
		return err
	}
	b.items = append(b.items, item)
	b.used.Release()
	return nil
}

// get waits for a used place.
func (b *buffer) get(c coroutine.Context) (string, error) {
	if err := b.used.Acquire(c); err != nil {
		return "", err
	}
	item := b.items[0]
	b.items = b.items[1:]
	b.free.Release()
	return item, nil
}

// parseFlags turns arguments into a config, or says what is wrong with them, all of it.
func parseFlags(args []string, stdout io.Writer) (c config, err error) {
	f := flag.NewFlagSet("tasks", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is told in one line, by the caller
	f.IntVar(&c.producers, "producers", 2, "`number` of producers")
	f.IntVar(&c.items, "items", 5, "`number` of items that each makes")
	f.IntVar(&c.places, "places", 3, "`number` of places in the buffer")
	f.IntVar(&c.take, "take", -1, "`number` of items that the consumer takes; -1: as many as there are")
	f.Uint64Var(&c.seed, "seed", 0, "run in the order that this `seed` gives; 0: first come, first served")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprintln(stdout, "tasks has producers and a consumer share a bounded buffer.")
			f.SetOutput(stdout)
			f.PrintDefaults()
		}
		return config{}, err
	}
	if c.take == -1 {
		c.take = c.producers * c.items
	}
	return c, errors.Join(
		fault(f.NArg() > 0, "stray argument %q; all there is to say is said with flags, see -help", f.Arg(0)),
		fault(c.producers < 0, "-producers %d: at least 0", c.producers),
		fault(c.items < 0, "-items %d: at least 0", c.items),
		fault(c.places < 1, "-places %d: at least 1", c.places),
		fault(c.take < -1, "-take %d: at least 0, or -1 for all", c.take),
	)
}

func fault(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}
