package transaction

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// table is the philosophers of figure 11: an atomic rule for each, and a process for each fork.
type table struct {
	w       *world
	forks   []*node
	holder  map[string]int // by fork
	diners  []*diner
	meals   int
	longest int // meals of others while one waited
}

// diner is a philosopher.
type diner struct {
	number, left, right int
	eaten               int
	doing               string // "", "hungry", "eating", "done"
	calls               map[string]*requests.Request
	todo                []func()
	since               int  // meals of others when it began to wait
	waits               bool // for its forks
}

func newTable(w *world, n int) *table {
	d := &table{w: w, holder: map[string]int{}}
	for i := range n {
		name := fmt.Sprintf("fork%d", i)
		f := w.add(&node{name: name})
		f.local = func(_ *node, q *requests.Queue) {
			d.holder[name] = -1
			q.Guard("pickup", func(func(string) guard.Counters) bool { return d.holder[name] < 0 })
			q.RequestGuard("putdown", func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args == d.holder[name] })
		}
		f.start = func(_ *node, r *requests.Request) {
			if r.Method == "pickup" {
				d.holder[name] = r.Args.(int)
			} else {
				d.holder[name] = -1
			}
		}
		d.forks = append(d.forks, f)
	}
	for i := range n {
		d.diners = append(d.diners, &diner{number: i, left: i, right: (i + 1) % n, calls: map[string]*requests.Request{}})
		synchronizer(w, fmt.Sprintf("rule%d", i), func(s *Synchronizer) {
			mine := func(r guard.Request) bool { return r.Args == i }
			s.Together(Event{d.forks[i].name, "pickup", mine}, Event{d.forks[(i+1)%n].name, "pickup", mine})
		})
	}
	return d
}

// call has a philosopher call both forks, one after the other in either order.
func (d *table) call(x *diner, method string) {
	for _, f := range []int{x.left, x.right} {
		x.todo = append(x.todo, func() {
			r := &requests.Request{Request: guard.Request{Process: d.forks[f].name, Method: method, Args: x.number}}
			x.calls[d.forks[f].name] = r
			d.forks[f].process.Arrive(r)
			d.w.serve(d.forks[f])
		})
	}
	if d.w.rnd.IntN(2) == 0 {
		x.todo[0], x.todo[1] = x.todo[1], x.todo[0]
	}
}

// has reports how many forks a philosopher holds.
func (d *table) has(x *diner) (n int) {
	for _, f := range []int{x.left, x.right} {
		if d.holder[d.forks[f].name] == x.number {
			n++
		}
	}
	return n
}

// events returns what philosophers can do now.
func (d *table) events(meals int) (all []func()) {
	for _, x := range d.diners {
		switch {
		case len(x.todo) > 0:
			all = append(all, func() {
				f := x.todo[0]
				x.todo = x.todo[1:]
				f()
			})
		case x.doing == "" && x.eaten < meals:
			all = append(all, func() {
				x.doing = "hungry"
				d.call(x, "pickup")
			})
		case x.doing == "hungry" && d.has(x) == 2:
			all = append(all, func() {
				x.doing = "eating"
			})
		case x.doing == "eating":
			all = append(all, func() {
				x.doing = "done"
				d.call(x, "putdown")
			})
		case x.doing == "done" && d.has(x) == 0:
			all = append(all, func() {
				x.doing = ""
				x.eaten++
			})
		}
	}
	return all
}

// quiet reports whether no message is on its way and no function runs.
func (w *world) quiet() bool {
	for _, l := range w.lines {
		if len(l.queue) > 0 {
			return false
		}
	}
	return true
}

// dine has philosophers eat, and says what went wrong.
func (d *table) dine(meals int) string {
	var wrong string
	d.w.more = func() []func() { return d.events(meals) }
	d.w.after = func() {
		for _, x := range d.diners {
			switch asked := x.doing == "hungry" && len(x.todo) == 0; {
			case asked && !x.waits && d.has(x) < 2:
				x.waits, x.since = true, d.meals
			case asked && x.waits && d.has(x) == 2:
				x.waits = false
				d.longest = max(d.longest, d.meals-x.since)
				d.meals++
			}
			if x.doing == "hungry" && d.w.quiet() && d.has(x) == 1 {
				wrong = fmt.Sprintf("philosopher %d holds one fork", x.number)
			}
		}
	}
	if !d.w.run(100 * limit) {
		return "it does not end"
	}
	for _, x := range d.diners {
		if x.eaten < meals && wrong == "" {
			wrong = fmt.Sprintf("philosopher %d has eaten %d times", x.number, x.eaten)
		}
	}
	return wrong
}

func TestX2_AtomicPhilosophers(t *testing.T) {
	t.Parallel()
	const n, meals = 5, 40
	measure := func(seeds uint64, literal bool) (longest int, messages float64) {
		for seed := range seeds {
			w := newWorld(seed)
			d := newTable(w, n)
			w.correct(func(x *text) { x.ignoresAge = literal })
			w.begin()
			require.Empty(t, d.dine(meals), "seed %d", seed)
			longest = max(longest, d.longest)
			messages += float64(w.messages()) / (n * meals)
		}
		return longest, messages / float64(seeds)
	}
	longest, messages := measure(500, false)
	ageless, more := measure(100, true)
	t.Logf("a philosopher waits for at most %d meals of others, %.1f messages a meal; without ages %d and %.1f", longest, messages, ageless, more)
	assert.LessOrEqual(t, longest, 10)
	assert.Greater(t, ageless, longest, "the simulator does not notice the fault")
}
