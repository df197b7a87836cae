package synchronizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/rules"
)

type member string

func (m member) Name() string { return string(m) }

type pointer struct{ name string }

func (p *pointer) Name() string { return p.name }

func on(of, method string) synchronizer.Event {
	return synchronizer.Event{Of: member(of), Method: method}
}

func yes(guard.Request) bool { return true }

func TestAllThatIsWrongWithTheRulesIsReportedTogether(t *testing.T) {
	var none *pointer
	_, err := synchronizer.Rules("S", func(s *synchronizer.Synchronizer) {
		s.Constrain(nil, "m", yes)
		s.Constrain(none, "m", yes)
		s.Constrain(member("p"), "", yes)
		s.Constrain(member("p"), "m", nil)
		s.Trigger(nil, "m", synchronizer.Accepted, func(guard.Request) {})
		s.Trigger(member("p"), "m", synchronizer.Completed, nil)
		s.Trigger(member("p"), "m", synchronizer.Phase(2), func(guard.Request) {})
		s.Atomic()
		s.Atomic(on("p", "m"))
		s.Atomic(on("p", "m"), synchronizer.Event{Method: "m"})
		s.Atomic(on("p", "m"), on("q", ""))
		s.Atomic(on("p", "m"), on("q", "m"), on("p", "n"))
		s.Count(nil, "m")
		s.OnTerminated(nil)
		s.AtMost(0, on("p", "m"))
		s.AtMost(1)
		s.AtMost(1, synchronizer.Event{Of: member("p"), Method: "m", If: yes})
		s.AtMost(1, on("p", "m"), on("p", "m"))
		s.OncePerRound(on("p", "m"))
		s.OncePerRound(on("p", "m"), synchronizer.Event{Of: none, Method: "m"})
	})
	require.Error(t, err)
	assert.Equal(t, []string{
		`synchronizer "S": Constrain of "m": the member is nil`,
		`synchronizer "S": Constrain of "m": the member is nil`,
		`synchronizer "S": Constrain of a method of "p": the method has no name`,
		`synchronizer "S": Constrain of "m" of "p": the function is nil`,
		`synchronizer "S": Trigger of "m": the member is nil`,
		`synchronizer "S": Trigger of "m" of "p": the function is nil`,
		`synchronizer "S": Trigger of "m" of "p": there is no phase 2`,
		`synchronizer "S": Atomic: it has 0 events and needs 2`,
		`synchronizer "S": Atomic: it has 1 events and needs 2`,
		`synchronizer "S": Atomic: event 1, of "m": the member is nil`,
		`synchronizer "S": Atomic: event 1, of "q": the method has no name`,
		`synchronizer "S": Atomic: two events of "p": a member runs one at a time`,
		`synchronizer "S": Count of "m": the member is nil`,
		`synchronizer "S": OnTerminated: the function is nil`,
		`synchronizer "S": AtMost: 0: at least one must be allowed`,
		`synchronizer "S": AtMost: it has 0 events and needs 1`,
		`synchronizer "S": AtMost: "m" of "p" has an If: counters are of all requests of a method`,
		`synchronizer "S": AtMost: "m" of "p" is listed twice`,
		`synchronizer "S": OncePerRound: it has 1 events and needs 2`,
		`synchronizer "S": OncePerRound: event 1, of "m": the member is nil`,
	}, strings.Split(err.Error(), "\n"))
}

func TestASynchronizerNeedsANameAnInitAndRules(t *testing.T) {
	for want, made := range map[string]func() (*rules.Rules, error){
		`synchronizer: it has no name`:      func() (*rules.Rules, error) { return synchronizer.Rules("", func(*synchronizer.Synchronizer) {}) },
		`synchronizer "S": init is nil`:     func() (*rules.Rules, error) { return synchronizer.Rules("S", nil) },
		`synchronizer "S": it has no rules`: func() (*rules.Rules, error) { return synchronizer.Rules("S", func(*synchronizer.Synchronizer) {}) },
	} {
		_, err := made()
		require.EqualError(t, err, want)
	}
}

func TestARuleCannotBeAddedAfterInit(t *testing.T) {
	var kept *synchronizer.Synchronizer
	_, err := synchronizer.Rules("S", func(s *synchronizer.Synchronizer) {
		kept = s
		s.Constrain(member("p"), "m", yes)
	})
	require.NoError(t, err)
	for name, add := range map[string]func(){
		"Constrain":    func() { kept.Constrain(member("p"), "m", yes) },
		"Trigger":      func() { kept.Trigger(member("p"), "m", synchronizer.Accepted, func(guard.Request) {}) },
		"Atomic":       func() { kept.Atomic(on("p", "m"), on("q", "m")) },
		"OnTerminated": func() { kept.OnTerminated(func(synchronizer.Member) {}) },
		"AtMost":       func() { kept.AtMost(1, on("p", "m")) },
		"OncePerRound": func() { kept.OncePerRound(on("p", "m"), on("q", "m")) },
	} {
		assert.PanicsWithValue(t, fmt.Sprintf("synchronizer %q: %s is called after init has returned", "S", name), add)
	}
}

// fake evaluates rules without a protocol: each request that is allowed is counted at once.
type fake struct {
	*rules.Rules

	counters map[rules.Method]guard.Counters
}

func newFake(t *testing.T, init func(s *synchronizer.Synchronizer)) *fake {
	t.Helper()
	r, err := synchronizer.Rules("S", init)
	require.NoError(t, err)
	f := &fake{r, map[rules.Method]guard.Counters{}}
	r.Count = func(m rules.Method) guard.Counters { return f.counters[m] }
	return f
}

func (f *fake) start(of, method string) bool {
	q := guard.Request{Process: of, Method: method}
	if !f.Holds(q) {
		return false
	}
	m := rules.Method{Of: of, Name: method}
	c := f.counters[m]
	c.Accepted++
	c.Current++
	f.counters[m] = c
	f.Accept(q)
	return true
}

func (f *fake) end(of, method string) {
	m := rules.Method{Of: of, Name: method}
	c := f.counters[m]
	c.Completed++
	c.Current--
	f.counters[m] = c
	f.Complete(guard.Request{Process: of, Method: method})
}

func (f *fake) restart(of string) {
	for m := range f.counters {
		if m.Of == of {
			delete(f.counters, m)
		}
	}
	f.Terminate(of)
}

func TestAtMostCountsWhatIsCurrentOfAllMethodsTogether(t *testing.T) {
	f := newFake(t, func(s *synchronizer.Synchronizer) { s.AtMost(2, on("p", "m"), on("p", "n"), on("q", "m")) })
	assert.True(t, f.start("p", "m"))
	assert.True(t, f.start("q", "m"))
	assert.False(t, f.start("p", "n"))
	f.end("p", "m")
	assert.True(t, f.start("p", "n"))
	assert.False(t, f.start("p", "n"))
	f.restart("p")
	assert.True(t, f.start("p", "m"), "what the dead member was doing does not count")
}

func TestEachMethodRunsOnceBeforeAnyRunsTwice(t *testing.T) {
	f := newFake(t, func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m"), on("c", "m")) })
	for range 5 {
		for _, of := range []string{"b", "c", "a"} {
			assert.True(t, f.start(of, "m"))
			if of != "a" {
				assert.False(t, f.start(of, "m"))
			}
		}
	}
}

func TestAMemberThatHasRestartedTakesPartInThePresentRound(t *testing.T) {
	f := newFake(t, func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m"), on("c", "m")) })
	for range 5 {
		for _, of := range []string{"a", "b", "c"} {
			require.True(t, f.start(of, "m"))
		}
	}
	require.True(t, f.start("a", "m"))
	f.restart("a")
	assert.True(t, f.start("a", "m"), "it may have lost what it did in this round")
	assert.False(t, f.start("a", "m"))
	require.True(t, f.start("b", "m"))
	f.restart("c")
	assert.False(t, f.start("b", "m"), "c has not had its turn")
	assert.True(t, f.start("c", "m"))
	assert.True(t, f.start("b", "m"))
}

// lose has a member taken for dead: its counters cannot be seen. The result brings them back.
func (f *fake) lose(of string) (back func()) {
	kept := map[rules.Method]guard.Counters{}
	for m, c := range f.counters {
		if m.Of == of {
			kept[m] = c
		}
	}
	f.restart(of)
	return func() { maps.Copy(f.counters, kept) }
}

func TestAMemberThatWasTakenForDeadHasTheTurnThatItHad(t *testing.T) {
	f := newFake(t, func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m")) })
	for range 100 {
		require.True(t, f.start("a", "m"))
		require.True(t, f.start("b", "m"))
	}
	require.True(t, f.start("a", "m"))
	back := f.lose("b")
	require.False(t, f.start("a", "m"), "b has not had its turn")
	back()
	assert.False(t, f.start("a", "m"))
	assert.True(t, f.start("b", "m"))
	assert.True(t, f.start("a", "m"))
	assert.False(t, f.start("a", "m"))
}

func TestAMemberThatIsReachedLateTakesPartInThePresentRound(t *testing.T) {
	for name, late := range map[string]int{"with as many rounds": 100, "with more": 5000, "with fewer": 3} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m")) })
			f.counters[rules.Method{Of: "a", Name: "m"}] = guard.Counters{Accepted: 101}
			require.False(t, f.start("a", "m"), "what b has done is not known")
			f.counters[rules.Method{Of: "b", Name: "m"}] = guard.Counters{Accepted: late}
			row := func(of string) (n int) {
				for f.start(of, "m") {
					n++
				}
				return n
			}
			assert.LessOrEqual(t, row("a"), 2)
			for range 3 {
				assert.Equal(t, 2, row("b"), "the last of a round, and the first of the next")
				assert.Equal(t, 2, row("a"))
			}
		})
	}
}

// Without restarts of members no two of them are ever more than a round apart, whatever notices say and however often the synchronizer
// restarts. From its restart on a member may be three ahead of another: the other had run in this round, the member runs in it again, and
// then in the next.
func TestNoMemberIsAheadByMoreThanARound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		members := []string{"a", "b", "c"}
		init := func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m"), on("c", "m")) }
		f := newFake(t, init)
		lost := map[string]func(){}
		ran, apart := map[string]int{}, 1
		for range rapid.IntRange(1, 300).Draw(r, "steps") {
			m := rapid.SampledFrom(members).Draw(r, "member")
			switch back := lost[m]; rapid.SampledFrom([]string{"run", "run", "run", "run", "lose", "return", "return", "restart", "new"}).Draw(r, "what") {
			case "run":
				if back == nil && f.start(m, "m") {
					ran[m]++
				}
			case "lose":
				if back == nil {
					lost[m] = f.lose(m)
				}
			case "return":
				if back != nil {
					back()
					delete(lost, m)
				}
			case "restart":
				f.restart(m)
				delete(lost, m)
				ran, apart = map[string]int{}, 3
			case "new":
				counters := f.counters
				f = newFake(t, init)
				f.counters = counters
				f.Count = func(m rules.Method) guard.Counters { return counters[m] }
				if apart == 3 {
					ran = map[string]int{}
				}
			}
			for _, x := range members {
				for _, y := range members {
					if ran[x]-ran[y] > apart {
						r.Fatalf("%s has run %d times, %s %d times", x, ran[x], y, ran[y])
					}
				}
			}
		}
		for _, back := range lost {
			back()
		}
		clear(ran)
		for range 20 {
			for _, m := range members {
				if f.start(m, "m") {
					ran[m]++
				}
			}
		}
		for _, m := range members {
			if ran[m] < 10 {
				r.Fatalf("%s is held: %v", m, ran)
			}
		}
	})
}

func TestASynchronizerThatRestartsReadsTheRoundFromTheCounters(t *testing.T) {
	f := newFake(t, func(s *synchronizer.Synchronizer) { s.OncePerRound(on("a", "m"), on("b", "m"), on("c", "m")) })
	f.counters[rules.Method{Of: "a", Name: "m"}] = guard.Counters{Accepted: 8}
	f.counters[rules.Method{Of: "b", Name: "m"}] = guard.Counters{Accepted: 7}
	f.counters[rules.Method{Of: "c", Name: "m"}] = guard.Counters{Accepted: 1} // it has restarted once
	assert.False(t, f.start("a", "m"))
	assert.True(t, f.start("b", "m"))
	assert.False(t, f.start("a", "m"))
	assert.True(t, f.start("c", "m"))
	assert.True(t, f.start("a", "m"))
}

func TestATriggerRunsInItsPhaseAndARepairGetsTheMember(t *testing.T) {
	var log []string
	f := newFake(t, func(s *synchronizer.Synchronizer) {
		s.Trigger(member("p"), "m", synchronizer.Accepted, func(guard.Request) {
			log = append(log, fmt.Sprint("accepted ", s.Count(member("p"), "m").Accepted))
		})
		s.Trigger(member("p"), "m", synchronizer.Completed, func(guard.Request) { log = append(log, "completed") })
		s.OnTerminated(func(of synchronizer.Member) { log = append(log, fmt.Sprintf("%T %s", of, of.Name())) })
	})
	f.start("p", "m")
	f.end("p", "m")
	f.restart("p")
	assert.Equal(t, []string{"accepted 1", "completed", "synchronizer_test.member p"}, log)
}

func TestCountInInitHasTheMethodCounted(t *testing.T) {
	r, err := synchronizer.Rules("S", func(s *synchronizer.Synchronizer) {
		assert.Zero(t, s.Count(member("q"), "done"))
		s.Constrain(member("p"), "m", func(guard.Request) bool { return s.Count(member("q"), "done").Completed > 0 })
	})
	require.NoError(t, err)
	assert.Contains(t, r.Methods, rules.Method{Of: "q", Name: "done"})
	assert.False(t, r.Holds(guard.Request{Process: "p", Method: "m"}), "without counters all are zero")
}

func TestAMethodWithConstraintsAndAtomicRulesIsNamed(t *testing.T) {
	r, err := synchronizer.Rules("S", func(s *synchronizer.Synchronizer) {
		s.Atomic(on("b", "m"), on("a", "m"), on("c", "m"))
		s.Constrain(member("b"), "m", yes)
		s.Constrain(member("a"), "m", yes)
		s.Trigger(member("c"), "m", synchronizer.Accepted, func(guard.Request) {})
	})
	require.NoError(t, err)
	assert.Equal(t, []rules.Method{{Of: "a", Name: "m"}, {Of: "b", Name: "m"}}, r.Mixed())
}

// encoded is how package rpc passes what came from another node.
type encoded string

func (e encoded) Decode(into any) error { return json.Unmarshal([]byte(e), into) }

func TestArgsAreTypedWhereverTheyComeFrom(t *testing.T) {
	type page struct{ Number int }
	assert.Equal(t, page{3}, synchronizer.Args[page](guard.Request{Args: page{3}}))
	assert.Equal(t, page{3}, synchronizer.Args[page](guard.Request{Args: encoded(`{"Number":3}`)}))
	assert.Equal(t, 3, synchronizer.Args[any](guard.Request{Args: 3}))
	require.ErrorContains(t, panicOf(func() { synchronizer.Args[int](guard.Request{Process: "p", Method: "m", Args: "3"}) }),
		`the Args of "m" of "p" are a string and no int`)
	require.ErrorContains(t, panicOf(func() { synchronizer.Args[int](guard.Request{Process: "p", Method: "m", Args: encoded(`"3"`)}) }),
		`the Args of "m" of "p": json: cannot unmarshal string`)
}

func panicOf(f func()) (err error) {
	defer func() { err = errors.New(fmt.Sprint(recover())) }()
	f()
	return nil
}
