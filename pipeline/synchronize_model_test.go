package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// patience is after how long a command counts as held for ever.
const patience = 20 * time.Second

// rig is a pipeline under random rules, whose handlers check what the rules promise.
type rig struct {
	stages []*stage.Stage[any]
	parts  []pipeline.Part
	kinds  map[string]bool // of rules, and whether atomic ones have patterns

	mu     sync.Mutex
	inside map[string]int // handlers of each rule's events
	starts []int          // stages, as their commands of the round have started
	broken []string

	started, ended atomic.Int64
}

// work is a command. Its method says which rules it is under.
type work struct {
	method string
	n      int
	crash  bool
	slow   bool
}

func (w work) Method() string { return w.method }

func (g *rig) failf(format string, args ...any) {
	g.broken = append(g.broken, fmt.Sprintf(format, args...))
}

// handler returns the handler of a stage: it enters all rules that its method is under.
func (g *rig) handler(i int, under func(method string) []check) behaviour.Func[any] {
	return func(_ context.Context, cmd any) behaviour.Outcome {
		w := cmd.(work)
		g.started.Add(1)
		defer g.ended.Add(1)
		g.mu.Lock()
		for _, c := range under(w.method) {
			if g.inside[c.rule]++; g.inside[c.rule] > c.most {
				g.failf("%s: %d are inside, %d may", c.rule, g.inside[c.rule], c.most)
			}
		}
		if w.method == "turn" {
			g.starts = append(g.starts, i)
		}
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, c := range under(w.method) {
				g.inside[c.rule]--
			}
		}()
		if w.slow {
			time.Sleep(50 * time.Microsecond)
		}
		if w.crash {
			panic("planned")
		}
		return behaviour.OK(nil)
	}
}

// check is a rule that a method is under: at most so many handlers are inside.
type check struct {
	rule string
	most int
}

// newRig draws stages and rules. Commands of the methods "free" and "shared" are under AtMost and Constrain, those of "turn" take turns, and
// those of "pair" are under an atomic rule.
func newRig(t *rapid.T) *rig {
	g := &rig{kinds: map[string]bool{}, inside: map[string]int{}}
	n := rapid.IntRange(2, 4).Draw(t, "stages")
	under := make([]map[string][]check, n)
	for i := range n {
		under[i] = map[string][]check{}
	}
	for _, kind := range []string{"at most", "constrain", "round", "atomic"} {
		g.kinds[kind] = rapid.Bool().Draw(t, kind)
	}
	g.kinds["at most"] = g.kinds["at most"] || !g.kinds["constrain"] && !g.kinds["round"] && !g.kinds["atomic"]
	var opts []stage.Option
	if !g.kinds["round"] && !g.kinds["atomic"] { // else a try more than the others have waits for ever
		opts = append(opts, stage.Retry(stage.RetryPolicy{Attempts: 2}))
	}
	if rapid.Bool().Draw(t, "guard") {
		opts = append(opts, stage.Guard("shared", func(count func(string) guard.Counters) bool { return count("shared").Current < 2 }))
	}
	opts = append(opts, stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}))
	grouped := rapid.SampledFrom([]int{0, 0, 2, n}).Draw(t, "stages of a group")
	var group []pipeline.Part
	for i := range n {
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		handler := g.handler(i, func(m string) []check { return under[i][m] })
		if i < grouped {
			s := stage.Func(fmt.Sprint("s", i), handler, opts...)
			g.stages, group = append(g.stages, s), append(group, s)
			continue
		}
		s := stage.Func(fmt.Sprint("s", i), handler, append(slices.Clip(opts), stage.Workers(workers, 4))...)
		g.stages, g.parts = append(g.stages, s), append(g.parts, s)
	}
	if grouped > 0 {
		workers := rapid.IntRange(1, 3).Draw(t, "shared workers")
		g.parts = append(g.parts, pipeline.Group("group", workers, workers, group...))
	}
	rule := func(name string, init func(s *synchronizer.Synchronizer)) {
		g.parts = append(g.parts, pipeline.Synchronize(name, init))
	}
	events := func(name string, most int, methods ...string) (all []synchronizer.Event) {
		for i, s := range g.stages {
			for _, m := range methods {
				all = append(all, on(s, m))
				under[i][m] = append(under[i][m], check{name, most})
			}
		}
		return all
	}
	if g.kinds["at most"] {
		n := rapid.IntRange(1, 3).Draw(t, "n")
		all := events("at most", n, "free", "shared")
		rule("at most", func(s *synchronizer.Synchronizer) { s.AtMost(n, all...) })
	}
	if g.kinds["constrain"] {
		all := events("constrain", 1, "shared")
		rule("constrain", func(s *synchronizer.Synchronizer) {
			busy := false
			for _, e := range all {
				s.Constrain(e.Of, e.Method, func(r guard.Request) bool { return !busy && r.Args.(work).method == "shared" })
				s.Trigger(e.Of, e.Method, synchronizer.Accepted, func(guard.Request) { busy = true })
				s.Trigger(e.Of, e.Method, synchronizer.Completed, func(guard.Request) { busy = false })
			}
		})
	}
	if g.kinds["round"] {
		all := events("round", 1, "turn")
		rule("turns", func(s *synchronizer.Synchronizer) { s.OncePerRound(all...) })
		rule("round", func(s *synchronizer.Synchronizer) { s.AtMost(1, all...) })
	}
	if g.kinds["atomic"] {
		patterns := rapid.Bool().Draw(t, "patterns")
		g.kinds["patterns"] = patterns
		rule("atomic", func(s *synchronizer.Synchronizer) {
			for i, a := range g.stages {
				b := g.stages[(i+1)%len(g.stages)]
				if !patterns && i > 0 {
					break
				}
				var mine func(guard.Request) bool
				if patterns {
					mine = func(r guard.Request) bool { return r.Args.(work).n%len(g.stages) == i }
				}
				s.Atomic(synchronizer.Event{Of: a, Method: "pair", If: mine}, synchronizer.Event{Of: b, Method: "pair", If: mine})
			}
		})
	}
	return g
}

// submit submits commands to a stage.
func (g *rig) submit(ctx context.Context, i, count int, ends *sync.WaitGroup, crashes bool) error {
	for n := range count {
		for _, method := range []string{"free", "shared", "turn", "pair", "other"} {
			if method == "pair" && g.kinds["atomic"] && !g.pairs(i, n) {
				continue
			}
			w := work{method: method, n: n, crash: crashes && rand.IntN(5) == 0, slow: rand.IntN(3) == 0}
			f, err := g.stages[i].Ask(ctx, w)
			if err != nil {
				return err
			}
			ends.Go(func() { _, _ = f.Wait(context.Background()) })
		}
	}
	return nil
}

// pairs reports whether a stage gets a command of "pair" of a number: with patterns, only the two stages of the rule for that number do.
func (g *rig) pairs(i, n int) bool {
	if !g.kinds["patterns"] {
		return true
	}
	rule := n % len(g.stages)
	return i == rule || i == (rule+1)%len(g.stages)
}

func TestRandomRulesHoldAndNothingIsHeldForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newRig(t)
		p, err := pipeline.New("test", append(g.parts, quiet, pipeline.Grace(5*time.Second))...)
		require.NoError(t, err)
		require.NoError(t, p.Start(context.Background()))
		count := rapid.IntRange(1, 30).Draw(t, "commands")
		hard := rapid.IntRange(0, 3).Draw(t, "stop hard") == 0
		var submitters, tickets, disturbers sync.WaitGroup
		errs := make([]error, len(g.stages))
		for i := range g.stages {
			submitters.Go(func() { errs[i] = g.submit(context.Background(), i, count, &tickets, true) })
		}
		stop := make(chan struct{})
		disturbers.Go(func() { g.disturb(p, stop) })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if hard {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			cancel()
			_ = p.Stop(ctx)
		}
		submitters.Wait()
		if !hard {
			waitFor(t, &tickets, p)
		}
		close(stop)
		disturbers.Wait()
		soft, done := context.WithTimeout(context.Background(), patience)
		defer done()
		err = p.Stop(soft)
		if !hard {
			require.NoError(t, err)
			require.NoError(t, errors.Join(errs...))
		}
		tickets.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		require.Empty(t, g.broken)
		g.checkRounds(t)
		g.checkCounters(t, p.Snapshot(), hard)
	})
}

// waitFor fails if commands are held for ever.
func waitFor(t *rapid.T, all *sync.WaitGroup, p *pipeline.Pipeline) {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		s := p.Snapshot()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Stop(ctx)
		for _, st := range s.Stages {
			t.Logf("%s: queued %d, in hand %d, workers %d idle %d, paused %v: %+v", st.Name, st.Queued, st.InHand, st.Workers, st.Idle, st.Paused, st.Methods)
		}
		t.Fatalf("held: %s", s.Law())
	}
}

// disturb pauses and resumes stages, swaps policies and reads snapshots.
func (g *rig) disturb(p *pipeline.Pipeline, stop <-chan struct{}) {
	names := policy.Names()
	for {
		select {
		case <-stop:
			return
		default:
		}
		s := g.stages[rand.IntN(len(g.stages))]
		switch rand.IntN(4) {
		case 0:
			_ = p.Pause(s)
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			_ = p.Resume(s)
		case 1:
			if law, err := policy.ByName(names[rand.IntN(len(names))]); err == nil {
				_ = p.Use(law)
			}
		case 2:
			s.CheckGuards()
		default:
			if snap := p.Snapshot(); !snap.Balanced() {
				g.mu.Lock()
				g.failf("not balanced: %s", snap.Law())
				g.mu.Unlock()
			}
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
	}
}

func (g *rig) checkRounds(t *rapid.T) {
	if !g.kinds["round"] {
		return
	}
	n := len(g.stages)
	for at := 0; at < len(g.starts); at += n {
		block := slices.Clone(g.starts[at:min(at+n, len(g.starts))])
		slices.Sort(block)
		require.Len(t, slices.Compact(block), min(n, len(g.starts)-at), "round %d: %v", at/n, g.starts)
	}
}

func (g *rig) checkCounters(t *rapid.T, s pipeline.Snapshot, hard bool) {
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight)
	for _, st := range s.Stages {
		for _, m := range st.Methods {
			require.Zero(t, m.Pending, "%s %+v", st.Name, m)
			require.Zero(t, m.Current, "%s %+v", st.Name, m)
			require.Equal(t, m.Accepted, m.Completed)
			require.Equal(t, m.Invocations, m.Accepted)
			if !hard {
				require.False(t, m.Held)
			}
		}
	}
}
