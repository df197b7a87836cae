package requests_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// process is the smallest owner of a queue. Its functions end at once, unless they are slow.
type process struct {
	queue   *requests.Queue
	run     func(r *requests.Request) (result any)
	slow    map[string]bool
	results map[*requests.Request]any
	order   []string
	open    []*requests.Request // slow functions that run
}

func newProcess() *process {
	return &process{queue: requests.New(), results: map[*requests.Request]any{}, slow: map[string]bool{}}
}

func (p *process) call(method string, args any) *requests.Request {
	r := &requests.Request{Request: guard.Request{Process: "p", Method: method, Args: args}}
	p.queue.Arrive(r)
	p.serve()
	return r
}

func (p *process) serve() {
	for r := p.queue.Next(); r != nil; r = p.queue.Next() {
		p.order = append(p.order, r.Method)
		if p.slow[r.Method] {
			p.open = append(p.open, r)
			continue
		}
		p.end(r)
	}
}

func (p *process) end(r *requests.Request) {
	p.results[r] = true
	if p.run != nil {
		p.results[r] = p.run(r)
	}
	p.queue.Complete(r)
}

func (p *process) endOldest() {
	r := p.open[0]
	p.open = p.open[1:]
	p.end(r)
	p.serve()
}

// Figures 17 and 18 of the text: a buffer with one place.
func TestS002_06_OneSlotBuffer(t *testing.T) {
	buffer := func() *process {
		p := newProcess()
		var value any
		empty := true
		p.queue.Guard("put", func(func(string) guard.Counters) bool { return empty })
		p.queue.Guard("get", func(func(string) guard.Counters) bool { return !empty })
		p.run = func(r *requests.Request) any {
			if r.Method == "put" { //nolint:usestdlibvars // of a process, not of HTTP
				value, empty = r.Args, false
				return nil
			}
			empty = true
			return value
		}
		return p
	}

	p := buffer()
	first := p.call("put", 1)
	assert.Contains(t, p.results, first)
	second := p.call("put", 2)
	assert.NotContains(t, p.results, second)
	assert.Equal(t, 1, p.queue.Count("put").Pending)
	assert.Equal(t, 1, p.results[p.call("get", nil)])
	assert.Contains(t, p.results, second, "the second put is accepted with no further message")
	assert.Equal(t, 2, p.results[p.call("get", nil)])
	waiting := p.call("get", nil)
	assert.NotContains(t, p.results, waiting)
	p.call("put", 3)
	assert.Equal(t, 3, p.results[waiting])

	p = buffer()
	var gets []*requests.Request
	for i := range 1000 { // the producer is up to 500 ahead, or the consumer
		if i%1000 < 500 {
			p.call("put", i+1)
		} else {
			gets = append(gets, p.call("get", nil))
		}
	}
	for i := range 500 {
		gets = append(gets, p.call("get", nil))
		p.call("put", 501+i)
	}
	require.Len(t, gets, 1000)
	for i, r := range gets {
		require.Equal(t, i+1, p.results[r])
	}
	assert.Zero(t, p.queue.Pending())
}

// Figure 8 of the text, and its enabled sets.
func TestS002_07_CountersAndEnabledSet(t *testing.T) {
	const size = 2
	byCounters := func(p *process) {
		p.queue.Guard("put", func(n func(string) guard.Counters) bool {
			return n("put").Completed-n("get").Completed < size && n("put").Current == 0
		})
		p.queue.Guard("get", func(n func(string) guard.Counters) bool {
			return n("get").Completed < n("put").Completed && n("get").Current == 0
		})
	}
	byEnabledSets := func(p *process) {
		n := 0
		enabled := func() []string {
			switch n {
			case 0:
				return []string{"put"}
			case size:
				return []string{"get"}
			}
			return []string{"put", "get"}
		}
		p.queue.Guard("put", guard.EnabledSet("put", enabled))
		p.queue.Guard("get", guard.EnabledSet("get", enabled))
		p.run = func(r *requests.Request) any {
			n += map[string]int{"put": 1, "get": -1}[r.Method]
			return nil
		}
	}
	for name, guards := range map[string]func(*process){"by counters": byCounters, "by enabled sets": byEnabledSets} {
		t.Run(name, func(t *testing.T) {
			p := newProcess()
			guards(p)
			for range 3 {
				p.call("put", nil)
			}
			assert.Equal(t, guard.Counters{Invocations: 3, Accepted: 2, Completed: 2, Pending: 1}, p.queue.Count("put"))
			p.call("get", nil)
			assert.Equal(t, guard.Counters{Invocations: 3, Accepted: 3, Completed: 3}, p.queue.Count("put"))
			assert.Equal(t, guard.Counters{Invocations: 1, Accepted: 1, Completed: 1}, p.queue.Count("get"))
		})
	}
	t.Run("with a slow put", func(t *testing.T) {
		p := newProcess()
		byCounters(p)
		p.call("put", nil)
		p.slow["put"] = true
		p.call("put", nil)
		p.call("put", nil)
		assert.Equal(t, guard.Counters{Invocations: 3, Accepted: 2, Completed: 1, Current: 1, Pending: 1}, p.queue.Count("put"))
		get := p.call("get", nil)
		assert.Contains(t, p.results, get, "a get is served while a put is suspended")
		assert.Equal(t, 1, p.queue.Count("put").Current, "a put waits for the one that runs")
		p.endOldest()
		p.endOldest()
		assert.Equal(t, guard.Counters{Invocations: 3, Accepted: 3, Completed: 3}, p.queue.Count("put"))
	})
}

// A calls m1, which calls m2 of B, which calls m3 of A, while m1 is suspended.
func TestX6_NoReentrancyDeadlock(t *testing.T) {
	a, b := newProcess(), newProcess()
	a.slow["m1"], b.slow["m2"] = true, true
	m1 := a.call("m1", nil)
	m2 := b.call("m2", nil)
	m3 := a.call("m3", nil)
	require.Contains(t, a.results, m3, "m3 runs while m1 is suspended")
	b.endOldest()
	require.Contains(t, b.results, m2)
	a.endOldest()
	require.Contains(t, a.results, m1)
}

func TestTheOldestRequestThatMayRunRunsFirst(t *testing.T) {
	p := newProcess()
	open := false
	p.queue.Guard("b", func(func(string) guard.Counters) bool { return open })
	p.queue.Guard("a", func(func(string) guard.Counters) bool { return open })
	for _, method := range []string{"a", "b", "b", "a", "c", "b"} {
		p.call(method, nil)
	}
	assert.Equal(t, []string{"c"}, p.order)
	open = true
	p.serve()
	assert.Equal(t, []string{"c", "a", "b", "b", "a", "b"}, p.order)
}

func TestARequestGuardLetsARequestOvertakeAnOlderOne(t *testing.T) {
	p := newProcess()
	limit := 10
	p.queue.RequestGuard("m", func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args.(int) < limit })
	large, small := p.call("m", 20), p.call("m", 5)
	assert.NotContains(t, p.results, large)
	assert.Contains(t, p.results, small)
	limit = 100
	p.serve()
	assert.Contains(t, p.results, large)
}

func TestAGuardIsEvaluatedOnceAScanAtAnyLength(t *testing.T) {
	p := newProcess()
	evaluations := 0
	p.queue.Guard("m", func(func(string) guard.Counters) bool { evaluations++; return false })
	for range 10_000 {
		p.queue.Arrive(&requests.Request{Request: guard.Request{Method: "m"}})
	}
	p.call("other", nil) // two scans: the second finds nothing
	assert.Equal(t, 2, evaluations)
}

func TestAGuardOfAMethodWithoutRequestsIsNotEvaluated(t *testing.T) {
	p := newProcess()
	p.queue.Guard("m", func(func(string) guard.Counters) bool { t.Error("evaluated"); return true })
	p.call("other", nil)
	assert.Equal(t, guard.Counters{}, p.queue.Count("unknown"))
}

func TestAGuardThatPanicsLeavesTheQueueAsItWas(t *testing.T) {
	p := newProcess()
	broken := true
	p.queue.Guard("m", func(func(string) guard.Counters) bool {
		if broken {
			panic("guard")
		}
		return true
	})
	assert.Panics(t, func() { p.call("m", nil) })
	assert.Equal(t, guard.Counters{Invocations: 1, Pending: 1}, p.queue.Count("m"))
	broken = false
	p.serve()
	assert.Equal(t, guard.Counters{Invocations: 1, Accepted: 1, Completed: 1}, p.queue.Count("m"))
}

func TestARequestIsWithdrawnOnlyWhileItWaits(t *testing.T) {
	p := newProcess()
	open := false
	p.queue.Guard("m", func(func(string) guard.Counters) bool { return open })
	first, second, third := p.call("m", nil), p.call("m", nil), p.call("m", nil)
	assert.True(t, p.queue.Withdraw(second))
	assert.False(t, p.queue.Withdraw(second))
	assert.Equal(t, guard.Counters{Invocations: 2, Pending: 2}, p.queue.Count("m"))
	open = true
	p.serve()
	assert.False(t, p.queue.Withdraw(first))
	p.queue.Complete(first) // a second time
	assert.Contains(t, p.results, first)
	assert.Contains(t, p.results, third)
	assert.NotContains(t, p.results, second)
	assert.Equal(t, guard.Counters{Invocations: 2, Accepted: 2, Completed: 2}, p.queue.Count("m"))
	assert.Panics(t, func() { p.queue.Accept(first) })
	assert.Panics(t, func() { p.queue.Arrive(first) })
}

func TestACandidateStaysInTheQueueUntilItIsAccepted(t *testing.T) {
	q := requests.New()
	open := true
	q.Guard("m", func(func(string) guard.Counters) bool { return open })
	first, second := &requests.Request{Request: guard.Request{Method: "m"}}, &requests.Request{Request: guard.Request{Method: "m"}}
	q.Arrive(first)
	q.Arrive(second)
	assert.Same(t, first, q.Candidate(nil, nil))
	assert.Same(t, second, q.Candidate(nil, func(r *requests.Request) bool { return r == first }))
	assert.Nil(t, q.Candidate(func(method string) bool { return method == "m" }, nil))
	assert.True(t, q.Holds(first))
	open = false
	assert.False(t, q.Holds(first), "the guard is evaluated again")
	assert.Nil(t, q.Candidate(nil, nil))
	open = true
	q.Accept(second)
	assert.False(t, q.Holds(second))
	assert.Same(t, first, q.Next())
	assert.Nil(t, q.Next())
}

// model is a queue that scans one list of all requests.
type model struct {
	waiting []*requests.Request
	count   map[string]*guard.Counters
}

func (m *model) counters(method string) guard.Counters {
	if c := m.count[method]; c != nil {
		return *c
	}
	return guard.Counters{}
}

func (m *model) next(allowed func(*requests.Request) bool) *requests.Request {
	i := slices.IndexFunc(m.waiting, allowed)
	if i < 0 {
		return nil
	}
	r := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	c := m.count[r.Method]
	c.Pending--
	c.Accepted++
	c.Current++
	return r
}

func TestTheQueueIsAListThatIsScanned(t *testing.T) {
	methods := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		q, m := requests.New(), &model{count: map[string]*guard.Counters{}}
		var running []*requests.Request
		open := map[string]bool{}
		limit := 5
		stateGuard := func(method string, n func(string) guard.Counters) bool {
			return open[method] && n(method).Current < 2 && n("b").Current+n("a").Current < 3
		}
		for _, method := range methods[:3] {
			q.Guard(method, func(n func(string) guard.Counters) bool { return stateGuard(method, n) })
		}
		q.RequestGuard("c", func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args.(int) < limit })
		q.RequestGuard("c", func(r guard.Request, n func(string) guard.Counters) bool { return r.Args.(int) != n("d").Completed })
		allowed := func(r *requests.Request) bool {
			return r.Method == "d" || stateGuard(r.Method, m.counters) &&
				(r.Method != "c" || r.Args.(int) < limit && r.Args.(int) != m.counters("d").Completed)
		}
		check := func() {
			require.Equal(t, len(m.waiting), q.Pending())
			for _, method := range methods {
				require.Equal(t, m.counters(method), q.Count(method), method)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"arrive": func(t *rapid.T) {
				method := rapid.SampledFrom(methods).Draw(t, "method")
				r := &requests.Request{Request: guard.Request{Method: method, Args: rapid.IntRange(0, 9).Draw(t, "args")}}
				q.Arrive(r)
				m.waiting = append(m.waiting, r)
				if m.count[method] == nil {
					m.count[method] = &guard.Counters{}
				}
				m.count[method].Invocations++
				m.count[method].Pending++
			},
			"next": func(t *rapid.T) {
				want := m.next(allowed)
				require.Equal(t, fmt.Sprintf("%p", want), fmt.Sprintf("%p", q.Next()))
				if want != nil {
					running = append(running, want)
				}
			},
			"complete": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				r := running[i]
				running = slices.Delete(running, i, i+1)
				q.Complete(r)
				m.count[r.Method].Completed++
				m.count[r.Method].Current--
			},
			"withdraw": func(t *rapid.T) {
				if len(m.waiting) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "which")
				r := m.waiting[i]
				m.waiting = slices.Delete(m.waiting, i, i+1)
				require.True(t, q.Withdraw(r))
				m.count[r.Method].Invocations--
				m.count[r.Method].Pending--
			},
			"open":  func(t *rapid.T) { open[rapid.SampledFrom(methods).Draw(t, "method")] = rapid.Bool().Draw(t, "open") },
			"limit": func(t *rapid.T) { limit = rapid.IntRange(0, 10).Draw(t, "limit") },
		})
	})
}

func BenchmarkACallBesideWaitingRequests(b *testing.B) {
	for _, waiting := range []int{0, 10, 10_000} {
		b.Run(strconv.Itoa(waiting), func(b *testing.B) {
			q := requests.New()
			q.Guard("closed", func(n func(string) guard.Counters) bool { return n("other").Completed < 0 })
			q.Guard("m", func(n func(string) guard.Counters) bool { return n("m").Current == 0 })
			for range waiting {
				q.Arrive(&requests.Request{Request: guard.Request{Method: "closed"}})
			}
			b.ReportAllocs()
			for b.Loop() {
				q.Arrive(&requests.Request{Request: guard.Request{Method: "m"}})
				q.Complete(q.Next())
			}
		})
	}
}
