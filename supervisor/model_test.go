package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/supervisor"
)

// model is a sequential model of OTP's supervisor: its only clock is a number, it has no goroutine, and every step is
// complete before the next.
type model struct {
	strategy  supervisor.Strategy
	intensity supervisor.Intensity
	auto      supervisor.AutoShutdown
	list      []*modelled
	bad       map[string][]int // which starts of a child fail
	starts    map[string]int
	restarts  []time.Duration
	now       time.Duration
	over      bool
	trace     []string
}

type modelled struct {
	name        string
	restart     supervisor.Restart
	significant bool
	up          bool
}

func (m *model) find(name string) int {
	return slices.IndexFunc(m.list, func(c *modelled) bool { return c.name == name })
}

// start is do_start_child.
func (m *model) start(c *modelled) bool {
	m.starts[c.name]++
	if slices.Contains(m.bad[c.name], m.starts[c.name]) {
		m.trace = append(m.trace, "!"+c.name)
		return false
	}
	m.trace = append(m.trace, "+"+c.name)
	c.up = true
	return true
}

// stop is do_terminate.
func (m *model) stop(c *modelled) {
	if c.up {
		m.trace = append(m.trace, "-"+c.name)
		c.up = false
	}
}

// down is del_child.
func (m *model) down(c *modelled) {
	c.up = false
	if c.restart == supervisor.Temporary {
		m.list = slices.DeleteFunc(m.list, func(o *modelled) bool { return o == c })
	}
}

func (m *model) end() {
	for _, c := range slices.Backward(m.list) {
		m.stop(c)
	}
	m.over = true
}

// exit is do_restart, with do_auto_shutdown.
func (m *model) exit(name string, well bool) {
	c := m.list[m.find(name)]
	c.up = false
	if c.restart == supervisor.Permanent || c.restart == supervisor.Transient && !well {
		m.restart(c)
		return
	}
	m.down(c)
	if !c.significant || m.auto == 0 {
		return
	}
	if m.auto == supervisor.AllSignificant && slices.ContainsFunc(m.list, func(o *modelled) bool { return o.significant && o.up }) {
		return
	}
	m.end()
}

// restart is restart/2, and try_again_restart.
func (m *model) restart(c *modelled) {
	for c != nil {
		m.restarts = slices.DeleteFunc(m.restarts, func(at time.Duration) bool { return at < m.now-m.intensity.Within })
		m.restarts = append(m.restarts, m.now)
		if len(m.restarts) > m.intensity.Restarts {
			m.end()
			return
		}
		c = m.again(c)
	}
}

// again is restart/3. It returns the child that could not start.
func (m *model) again(c *modelled) *modelled {
	i := m.find(c.name)
	affected := []*modelled{c}
	switch m.strategy {
	case supervisor.RestForOne:
		affected = slices.Clone(m.list[i:])
	case supervisor.OneForAll:
		affected = slices.Clone(m.list)
	default:
	}
	for _, o := range slices.Backward(affected) {
		if o != c {
			m.stop(o)
			m.down(o)
		}
	}
	for _, o := range affected {
		if m.find(o.name) >= 0 && !m.start(o) {
			return o
		}
	}
	return nil
}

// The model of the four calls.

func (m *model) add(c *modelled) error {
	if i := m.find(c.name); i >= 0 {
		if m.list[i].up {
			return supervisor.ErrAlreadyStarted
		}
		return supervisor.ErrAlreadyPresent
	}
	if !m.start(c) {
		return errBoom
	}
	m.list = append(m.list, c)
	return nil
}

func (m *model) terminate(name string) error {
	i := m.find(name)
	if i < 0 {
		return supervisor.ErrNotFound
	}
	c := m.list[i]
	m.stop(c)
	m.down(c)
	return nil
}

func (m *model) resume(name string) error {
	i := m.find(name)
	switch {
	case i < 0:
		return supervisor.ErrNotFound
	case m.list[i].up:
		return supervisor.ErrRunning
	case !m.start(m.list[i]):
		return errBoom
	}
	return nil
}

func (m *model) remove(name string) error {
	i := m.find(name)
	switch {
	case i < 0:
		return supervisor.ErrNotFound
	case m.list[i].up:
		return supervisor.ErrRunning
	}
	m.list = slices.Delete(m.list, i, i+1)
	return nil
}

// event is one thing that happens to a tree.
type event struct {
	what    string
	name    string
	restart supervisor.Restart
	wait    time.Duration
}

// life is a random tree and the events that happen to it.
type life struct {
	strategy  supervisor.Strategy
	intensity supervisor.Intensity
	auto      supervisor.AutoShutdown
	children  []modelled
	bad       map[string][]int
	events    []event
}

var letters = []string{"a", "b", "c", "d", "e"}

func (l *life) significant(r supervisor.Restart, want bool) bool {
	return want && l.auto != 0 && r != supervisor.Permanent
}

func drawLife(t *rapid.T) *life {
	l := &life{
		strategy: supervisor.Strategy(rapid.IntRange(0, 2).Draw(t, "strategy")),
		intensity: supervisor.Intensity{
			Restarts: rapid.IntRange(0, 4).Draw(t, "restarts"),
			Within:   time.Duration(rapid.IntRange(1, 4).Draw(t, "within")) * time.Second,
		},
		auto: supervisor.AutoShutdown(rapid.IntRange(0, 2).Draw(t, "auto")),
		bad:  map[string][]int{},
	}
	for _, name := range letters[:rapid.IntRange(1, 4).Draw(t, "children")] {
		r := supervisor.Restart(rapid.IntRange(0, 2).Draw(t, "restart of "+name))
		l.children = append(l.children, modelled{name: name, restart: r, significant: l.significant(r, rapid.Bool().Draw(t, "significant"))})
	}
	for _, name := range letters {
		l.bad[name] = rapid.SliceOfN(rapid.IntRange(2, 6), 0, 3).Draw(t, "bad starts of "+name)
	}
	kinds := []string{"crash", "crash", "crash", "normal", "shutdown", "add", "terminate", "restart", "delete", "wait", "wait", "wait"}
	l.events = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{
			what:    rapid.SampledFrom(kinds).Draw(t, "what"),
			name:    rapid.SampledFrom(letters).Draw(t, "name"),
			restart: supervisor.Restart(rapid.IntRange(0, 2).Draw(t, "type")),
			wait:    time.Duration(rapid.IntRange(1, 5).Draw(t, "wait")) * time.Second,
		}
	}), 1, 30).Draw(t, "events")
	return l
}

// step is the result of an event.
type step struct {
	err   error
	trace []string
	list  []string
	over  bool
}

func (s step) String() string {
	return fmt.Sprintf("%v %v list %v over %v", s.err, s.trace, s.list, s.over)
}

// predict runs a life in the model.
func (l *life) predict() (all []step) {
	m := &model{strategy: l.strategy, intensity: l.intensity, auto: l.auto, bad: l.bad, starts: map[string]int{}}
	for _, c := range l.children {
		m.list = append(m.list, &c)
		m.start(&c)
	}
	for _, e := range l.events {
		m.trace = nil
		var err error
		i := m.find(e.name)
		up := i >= 0 && m.list[i].up
		switch {
		case m.over:
		case e.what == "add":
			err = m.add(&modelled{name: e.name, restart: e.restart})
		case e.what == "terminate":
			err = m.terminate(e.name)
		case e.what == "restart":
			err = m.resume(e.name)
		case e.what == "delete":
			err = m.remove(e.name)
		case e.what == "wait":
			m.now += e.wait
		case up:
			m.exit(e.name, e.what != "crash")
		}
		s := step{err: err, trace: slices.Clone(m.trace), over: m.over}
		for _, c := range m.list {
			if m.over { // after the end the lists differ, which does not matter
				break
			}
			s.list = append(s.list, fmt.Sprintf("%s %v", c.name, c.up))
		}
		all = append(all, s)
	}
	return all
}

// live runs a life in a real tree.
func (l *life) live(t *testing.T) (all []step) {
	synctest.Test(t, func(t *testing.T) {
		c := newServices(l.strategy, l.intensity)
		starts := map[string]int{}
		child := func(name string, r supervisor.Restart, significant bool) supervisor.Child {
			return supervisor.Child{Name: name, Restart: r, Significant: significant, Serve: func(ctx context.Context, ready func()) error {
				if starts[name]++; slices.Contains(l.bad[name], starts[name]) {
					c.book.write("!" + name)
					return errBoom
				}
				c.book.write("+" + name)
				ready()
				select {
				case do := <-c.channel(name):
					return do()
				case <-ctx.Done():
					c.book.write("-" + name)
					return nil
				}
			}}
		}
		c.spec.AutoShutdown = l.auto
		for _, k := range l.children {
			c.spec.Children = append(c.spec.Children, child(k.name, k.restart, k.significant))
		}
		tree := c.start(t)
		c.book.read()
		for _, e := range l.events {
			var err error
			over := closed(tree.Done())
			switch {
			case over:
			case e.what == "add":
				_, err = tree.Add(t.Context(), child(e.name, e.restart, false))
			case e.what == "terminate":
				err = tree.Terminate(e.name)
			case e.what == "restart":
				err = tree.Restart(t.Context(), e.name)
			case e.what == "delete":
				err = tree.Delete(e.name)
			case e.what == "wait":
				time.Sleep(e.wait)
			case state(tree, e.name) == "running":
				c.order(e.name, map[string]func() error{"crash": boomed, "normal": normal, "shutdown": shutdown}[e.what])
			}
			synctest.Wait()
			s := step{err: err, trace: c.book.read(), over: closed(tree.Done())}
			for _, k := range tree.Children() {
				if s.over {
					break
				}
				s.list = append(s.list, fmt.Sprintf("%s %v", k.Name, k.State == supervisor.Running))
			}
			all = append(all, s)
		}
		tree.Stop()
	})
	return all
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestATreeDoesWhatTheModelOfOTPDoes(t *testing.T) {
	held(t)
	for range 5 {
		rapid.Check(t, livesAsPredicted(t))
	}
}

func livesAsPredicted(t *testing.T) func(*rapid.T) {
	return func(rt *rapid.T) {
		l := drawLife(rt)
		want, got := l.predict(), l.live(t)
		for i := range want {
			w, g := want[i], got[i]
			if !slices.Equal(w.trace, g.trace) || w.over != g.over || !slices.Equal(w.list, g.list) || !errors.Is(g.err, w.err) || (w.err == nil) != (g.err == nil) {
				rt.Fatalf("%v, %v, %v, event %d, %+v:\nOTP   %v\nGolda %v", l.strategy, l.intensity, l.auto, i, l.events[i], w, g)
			}
		}
	}
}
