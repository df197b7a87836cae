// Tasks is the bounded buffer, with cooperative tasks and two counting
// semaphores: producers wait for a free place, the consumer for an item.
//
//	go run ./examples/tasks
//	go run ./examples/tasks -producers 3 -items 4 -places 1
//	go run ./examples/tasks -seed 7        # another order, the same each time
//
// No task is interrupted between two suspensions, so the buffer needs no lock.
// Each line reports an action of a task and shows the buffer after it: which
// item of which producer is in each place. A task that has to wait reports why.
//
//	go run ./examples/tasks -take 3        # a deadlock, as intended
//
// If the consumer takes so few items (-take) that the buffer cannot hold the
// rest, the producers wait for ever. If it takes more than are made, the
// consumer waits for ever. The scheduler reports the deadlock, and the program
// reports which tasks wait, and why.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
	"github.com/golda-dev/golda/examples/internal/show"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// config holds the values of the flags.
type config struct {
	producers, items, places, take int
	seed                           uint64
}

// run runs the program and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "tasks", err)
	}
	return show.Status(stderr, "tasks", c.work(stdout))
}

// work lets producers and a consumer share a buffer.
func (c config) work(stdout io.Writer) error {
	cfg := scheduler.Config{MaxPool: 8}
	if c.seed > 0 {
		cfg.Rand = rand.New(rand.NewPCG(c.seed, 0))
	}
	s := scheduler.New(cfg)
	defer s.Close()
	b := newBuffer(c.places, stdout)
	for p := range c.producers {
		s.Go(func(task coroutine.Context) {
			for i := range c.items {
				if b.put(task, item{p, i}) != nil {
					return // the program ends
				}
			}
		})
	}
	s.Go(func(task coroutine.Context) {
		for range c.take {
			if b.get(task) != nil {
				return
			}
		}
	})
	err := s.Loop()
	if errors.Is(err, scheduler.ErrDeadlock) {
		return fmt.Errorf("%w; %s; this is intended: %s", err, strings.Join(b.waiting, ", "), c.cause())
	}
	return err
}

// cause returns which flags make the tasks wait for ever.
func (c config) cause() string {
	made := c.producers * c.items
	if c.take > made {
		return fmt.Sprintf("-take %d is more than the %d that are made", c.take, made)
	}
	return fmt.Sprintf("-take %d of %d leaves %d for -places %d", c.take, made, made-c.take, c.places)
}

// item is a producer's product.
type item struct{ producer, number int }

func (i item) String() string { return fmt.Sprintf("%d.%d", i.producer, i.number) }

// buffer has a bounded number of places.
type buffer struct {
	free, used *scheduler.Semaphore
	items      []item
	places     int
	out        io.Writer // where the buffer is printed
	waiting    []string  // which tasks wait, and for what
}

func newBuffer(places int, out io.Writer) *buffer {
	return &buffer{free: scheduler.NewSemaphore(places), used: scheduler.NewSemaphore(0), places: places, out: out}
}

// put waits for a free place.
func (b *buffer) put(c coroutine.Context, it item) error {
	name := fmt.Sprintf("producer %d", it.producer)
	if err := b.acquire(c, b.free, name, "a free place"); err != nil {
		return err
	}
	b.items = append(b.items, it)
	b.showf("%s puts item %d", name, it.number)
	b.used.Release()
	return nil
}

// get waits for an item.
func (b *buffer) get(c coroutine.Context) error {
	if err := b.acquire(c, b.used, "consumer", "an item"); err != nil {
		return err
	}
	it := b.items[0]
	b.items = b.items[1:]
	b.showf("consumer takes producer %d, item %d", it.producer, it.number)
	b.free.Release()
	return nil
}

// acquire takes a unit, and prints a line if the task has to wait for it.
func (b *buffer) acquire(c coroutine.Context, units *scheduler.Semaphore, task, what string) error {
	if units.TryAcquire() {
		return nil
	}
	waits := task + " waits for " + what
	b.showf("%s", waits)
	b.waiting = append(b.waiting, waits)
	err := units.Acquire(c)
	b.waiting = slices.DeleteFunc(b.waiting, func(w string) bool { return w == waits })
	return err
}

// widest is the largest number of places that are printed one by one.
const widest = 16

// showf prints an action of a task, and the buffer.
func (b *buffer) showf(format string, args ...any) {
	picture := fmt.Sprintf("%d of %d places used", len(b.items), b.places)
	if b.places <= widest {
		cells := make([]string, b.places)
		for i := range cells {
			cells[i] = "---"
			if i < len(b.items) {
				cells[i] = b.items[i].String()
			}
		}
		picture = strings.Join(cells, " ")
	}
	_, _ = fmt.Fprintf(b.out, "%-36s [%s]\n", fmt.Sprintf(format, args...), picture)
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them.
func parseFlags(args []string, stdout io.Writer) (c config, err error) {
	f := flag.NewFlagSet("tasks", flag.ContinueOnError)
	f.IntVar(&c.producers, "producers", 2, "`number` of producers")
	f.IntVar(&c.items, "items", 5, "`number` of items that each makes")
	f.IntVar(&c.places, "places", 3, "`number` of places in the buffer")
	f.IntVar(&c.take, "take", -1, "`number` of items that the consumer takes; -1: all that are made; "+
		"another number may end in a deadlock, which is reported")
	f.Uint64Var(&c.seed, "seed", 0, "choose the order of tasks at random with this `seed`; 0: first come, first served")
	if err := show.Parse(f, args, "tasks lets producers and a consumer share a bounded buffer.", stdout); err != nil {
		return config{}, err
	}
	take := c.take
	if take == -1 {
		c.take = c.producers * c.items
	}
	return c, errors.Join(
		show.NoArguments(f),
		show.Fault(c.producers < 0, "-producers %d: at least 0", c.producers),
		show.Fault(c.items < 0, "-items %d: at least 0", c.items),
		show.Fault(c.places < 1, "-places %d: at least 1", c.places),
		show.Fault(take < -1, "-take %d: at least 0, or -1 for all", take),
	)
}
