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
			must(s.Together(Event{d.forks[i].name, "pickup", mine}, Event{d.forks[(i+1)%n].name, "pickup", mine}))
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
	const philosophers, meals = 5, 40
	measure := func(n int, literal bool) (longest int, messages float64) {
		for seed := range seeds(n) {
			w := newWorld(seed)
			d := newTable(w, philosophers)
			w.correct(func(x *text) { x.ignoresAge = literal })
			w.begin()
			require.Empty(t, d.dine(meals), "seed %d", seed)
			longest = max(longest, d.longest)
			messages += float64(w.messages()) / (philosophers * meals)
		}
		return longest, messages / float64(seeds(n))
	}
	longest, messages := measure(500, false)
	ageless, more := measure(40, true)
	t.Logf("a philosopher waits for at most %d meals of others, %.1f messages a meal; without ages %d and %.1f", longest, messages, ageless, more)
	assert.LessOrEqual(t, longest, 10)
	assert.Greater(t, ageless, longest, "the simulator does not notice the fault")
}

// couple is a client that calls a method of two processes, which an atomic rule makes run together.
type couple struct {
	name   string
	method string
	of     [2]*node
	calls  [2]*requests.Request
	ran    [2]bool
	dead   [2]bool // the process that was called has died
	rounds int
	open   bool
}

// couples adds processes in a circle, with a couple for each two neighbours.
func couples(w *world, n, rounds int) (all []*couple) {
	for i := range n {
		w.add(&node{name: fmt.Sprintf("p%d", i)})
	}
	for i := range n {
		all = append(all, &couple{
			name: fmt.Sprintf("c%d", i), method: "m", rounds: rounds,
			of: [2]*node{w.nodes[fmt.Sprintf("p%d", i)], w.nodes[fmt.Sprintf("p%d", (i+1)%n)]},
		})
	}
	w.join(all)
	return all
}

// join adds the rule of each couple, and has the couples call.
func (w *world) join(all []*couple) {
	for _, c := range all {
		for i, p := range c.of {
			start, died := p.start, p.died
			p.start = func(p *node, r *requests.Request) {
				if start != nil {
					start(p, r)
				}
				if c.calls[i] == r { // else the other process has died, and the couple has given up
					c.ran[i] = true
				}
			}
			p.died = func(p *node) {
				if died != nil {
					died(p)
				}
				c.dead[i] = c.dead[i] || c.calls[i] != nil
			}
		}
		synchronizer(w, "rule"+c.name, func(s *Synchronizer) {
			mine := func(r guard.Request) bool { return r.Args == c.name }
			must(s.Together(Event{c.of[0].name, c.method, mine}, Event{c.of[1].name, c.method, mine}))
		})
	}
	w.more = func() (events []func()) {
		for _, c := range all {
			if f := c.next(w); f != nil {
				events = append(events, f)
			}
		}
		return events
	}
}

// next returns what a couple does next, or nil.
func (c *couple) next(w *world) func() {
	for i, p := range c.of {
		if c.open && c.calls[i] == nil && p.up {
			return func() {
				c.calls[i] = &requests.Request{Request: guard.Request{Process: p.name, Method: c.method, Args: c.name}}
				p.process.Arrive(c.calls[i])
				w.serve(p)
			}
		}
	}
	switch {
	case !c.open && c.rounds > 0:
		return func() { c.open = true }
	case c.open && c.ran == [2]bool{true, true}:
		return func() {
			c.rounds--
			c.reset()
		}
	case c.open && (c.dead[0] || c.dead[1]): // it withdraws what waits, and calls both again
		return func() {
			for i, p := range c.of {
				if c.calls[i] != nil && !c.dead[i] && p.up {
					p.process.Withdraw(c.calls[i])
					w.serve(p)
				}
			}
			c.reset()
		}
	}
	return nil
}

func (c *couple) reset() {
	c.open, c.calls, c.ran, c.dead = false, [2]*requests.Request{}, [2]bool{}, [2]bool{}
}

// together runs couples and says what went wrong.
func together(w *world, all []*couple) string {
	if !w.run(limit) {
		return "it does not end"
	}
	for _, c := range all {
		if c.rounds > 0 {
			return fmt.Sprintf("couple %s is stuck: ran %v", c.name, c.ran)
		}
	}
	for _, name := range w.names {
		if p := w.nodes[name].process; p != nil && (p.granted != nil || len(p.left)+len(p.due)+p.queue.Pending() > 0) {
			return name + " is not free"
		}
	}
	return ""
}

// miscounted says which synchronizer has other counters than a process, now that no message is on its way.
func (w *world) miscounted() string {
	for _, name := range w.names {
		s := w.nodes[name].synchronizer
		if s == nil || !w.nodes[name].up {
			continue
		}
		for m := range s.rules {
			p := w.nodes[m.process]
			if at := s.processes[m.process]; !p.up || !at.known || at.down || p.process.synchronizers[name].down {
				continue
			}
			got, want := s.Count(m.process, m.name), p.process.queue.Count(m.name)
			if got.Accepted != want.Accepted || got.Completed != want.Completed || got.Current != want.Current {
				return fmt.Sprintf("%s counts %+v of %v, which has %+v", name, got, m, want)
			}
		}
	}
	return ""
}

func TestAnAtomicRuleSurvivesItsSynchronizer(t *testing.T) {
	row(t, 1500, 30, func(w *world, literal bool) string {
		all := couples(w, 3, 4)
		for _, c := range all {
			if w.rnd.IntN(2) == 0 {
				w.nodes["rule"+c.name].plan = 1 + w.rnd.IntN(40)
			}
		}
		w.correct(func(x *text) { x.forgetsGrants = literal })
		w.begin()
		return together(w, all)
	})
}

func TestAnAtomicRuleSurvivesItsProcesses(t *testing.T) {
	t.Parallel()
	n, _ := count(t, seeds(1500), 0, func(w *world) string {
		all := couples(w, 3, 4)
		for _, name := range w.names {
			if w.rnd.IntN(3) == 0 {
				w.nodes[name].plan = 1 + w.rnd.IntN(40)
			}
		}
		w.begin()
		w.mistake(w.rnd.IntN(4))
		return together(w, all)
	})
	assert.Zero(t, n)
}

// mistake has nodes that live be reported as dead, some times.
func (w *world) mistake(times int) {
	w.after = func() {
		x, y := w.nodes[w.names[w.rnd.IntN(len(w.names))]], w.nodes[w.names[w.rnd.IntN(len(w.names))]]
		if times > 0 && w.rnd.IntN(20) == 0 && x != y && x.up && y.up {
			times--
			w.logf("%s takes %s for dead", y.name, x.name)
			w.report(x, y)
		}
	}
}

func TestARequestThatNoAtomicRuleIsAboutRuns(t *testing.T) {
	w := newWorld(0)
	plain(w, "A", "B")
	for _, s := range []string{"S1", "S2"} {
		synchronizer(w, s, func(s *Synchronizer) {
			never := func(guard.Request) bool { return false }
			must(s.Together(Event{"A", "m", never}, Event{"B", "m", nil}))
		})
	}
	w.begin()
	w.arrive("A", "m")
	w.arrive("B", "m")
	require.True(t, w.run(limit))
	assert.Equal(t, 1, w.count("A", "m").Accepted)
	assert.Equal(t, 1, w.count("B", "m").Pending)
}

func TestAMethodHasConstraintsOrAtomicRules(t *testing.T) {
	w := newWorld(0)
	plain(w, "A", "B")
	synchronizer(w, "S1", func(s *Synchronizer) {
		must(s.Together(Event{"A", "m", nil}, Event{"B", "m", nil}))
		s.Constrain("B", "m", func(guard.Request) bool { return true })
	})
	synchronizer(w, "S2", free([]string{"A"}, "m", nil))
	w.begin()
	w.arrive("A", "m")
	w.arrive("B", "m")
	require.True(t, w.run(limit))
	assert.Equal(t, []Conflict{{"m", []string{"S2"}, []string{"S1"}}}, w.nodes["A"].process.Conflicts())
	assert.Equal(t, []Conflict{{"m", []string{"S1"}, []string{"S1"}}}, w.nodes["B"].process.Conflicts(), "also if one synchronizer has both")
	assert.Zero(t, w.count("A", "m").Accepted+w.count("B", "m").Accepted)
}

func TestAnAtomicRuleHasEventsOfDifferentProcesses(t *testing.T) {
	s := NewSynchronizer("S", 1)
	require.EqualError(t, s.Together(), `synchronizer "S": an atomic rule of 0 events: it needs two`)
	require.EqualError(t, s.Together(Event{"A", "m", nil}), `synchronizer "S": an atomic rule of 1 events: it needs two`)
	require.EqualError(t, s.Together(Event{"A", "m", nil}, Event{"B", "m", nil}, Event{"A", "n", nil}),
		`synchronizer "S": an atomic rule has two events of process "A"`)
	assert.Empty(t, s.Processes())
	require.NoError(t, s.Together(Event{"A", "m", nil}, Event{"B", "m", nil}))
	assert.Equal(t, []string{"A", "B"}, s.Processes())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
