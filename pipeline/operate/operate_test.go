package operate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/pipeline/operate"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

func quiet() pipeline.Part { return pipeline.Logger(slog.New(slog.DiscardHandler)) }

// started starts a pipeline that stops with the test.
func started(t *testing.T, parts ...pipeline.Part) (*pipeline.Pipeline, *operate.Operator) {
	t.Helper()
	p, err := pipeline.New("p", append(parts, quiet())...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p, operate.New(p, "ann")
}

// works returns a stage whose handlers take 10 ms.
func works(name string, options ...stage.Option) *stage.Flow[int, int] {
	return stage.Map(name, func(_ context.Context, n int) (int, error) {
		time.Sleep(10 * time.Millisecond)
		return n, nil
	}, options...)
}

// last returns the newest entry of the journal.
func last(t *testing.T, p *pipeline.Pipeline, number uint64) controller.Change {
	t.Helper()
	for _, c := range p.Journal() {
		if c.Number == number {
			return c
		}
	}
	t.Fatalf("the journal has no entry %d", number)
	return controller.Change{}
}

func of(p *pipeline.Pipeline, name string) stage.Snapshot {
	for _, st := range p.Snapshot().Stages {
		if st.Name == name {
			return st
		}
	}
	return stage.Snapshot{}
}

// insists is a policy that asks for the same again and again.
type insists struct {
	workers, capacity int
	rate              controller.Rate
}

func (insists) Name() string                 { return "insists" }
func (insists) Check() error                 { return nil }
func (i insists) New() controller.Controller { return i }

func (i insists) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(10 * time.Millisecond)
	for j := range s.Stages {
		st := &s.Stages[j]
		controller.KnobWorkers.Set(d, st.ID, i.workers, "more")
		controller.KnobCapacity.Set(d, st.ID, i.capacity, "more")
		controller.KnobRate.Set(d, st.ID, i.rate, "more")
	}
	controller.KnobRate.Set(d, controller.Entry, i.rate, "more")
}

func TestTheOperatorWinsOverAPolicyThatInsists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wants := insists{workers: 8, capacity: 500, rate: controller.Rate{PerSecond: 1e6, Burst: 1000}}
		p, op := started(t, works("work", stage.Workers(1, 8)), pipeline.Control(wants))
		time.Sleep(time.Second)
		require.Equal(t, 8, of(p, "work").Workers.Live)
		require.Equal(t, 500, of(p, "work").Queue.Capacity)

		_, err := op.Resize("work", 2, 3)
		require.NoError(t, err)
		_, err = op.Capacity("work", 7)
		require.NoError(t, err)
		check := func(when string) {
			time.Sleep(time.Second)
			st := of(p, "work")
			require.Equal(t, 3, st.Workers.Live, when)
			require.Equal(t, 2, st.Workers.Min, when)
			require.Equal(t, 3, st.Workers.Max, when)
			require.Equal(t, 7, st.Queue.Capacity, when)
		}
		check("the policy insists")
		require.NoError(t, p.SetPolicy(wants))
		check("the policy is replaced")
		require.NoError(t, p.SetPolicy(policy.Backlog{}))
		require.NoError(t, p.SetPolicy(wants))
		check("it is replaced by another one")

		_, err = op.Resize("work", 0, 0)
		require.NoError(t, err)
		_, err = op.Capacity("work", 0)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 8, of(p, "work").Workers.Live, "given back")
		require.Equal(t, 500, of(p, "work").Queue.Capacity, "given back")
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestMoreWorkersThanDeclaredHaveInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int64
		work := stage.Map("work", func(_ context.Context, n int) (int, error) {
			for now, old := at.Add(1), most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			at.Add(-1)
			return n, nil
		}, stage.Workers(1, 2), stage.Capacity(1000))
		p, op := started(t, work)
		_, err := op.Resize("work", 6, 6)
		require.NoError(t, err)
		for n := range 600 {
			require.NoError(t, work.Submit(t.Context(), n))
		}
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, 6, most.Load())
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 600, p.Snapshot().Replied)
	})
}

func TestARateIsHeldAtAStageAndAtTheEntry(t *testing.T) {
	for _, at := range []string{"work", ""} {
		t.Run("at "+at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := works("work", stage.Overflow(overflow.Reject), stage.Workers(8, 8))
				p, op := started(t, work, pipeline.Control(insists{workers: 8, capacity: 500, rate: controller.Rate{PerSecond: 1e6, Burst: 1000}}))
				time.Sleep(time.Second)
				accepted := func() (n int) {
					for range 1000 { // for 10 s
						if work.Submit(t.Context(), 1) == nil {
							n++
						}
						time.Sleep(10 * time.Millisecond)
					}
					return n
				}
				_, err := op.Rate(at, controller.Rate{PerSecond: 5, Burst: 1})
				require.NoError(t, err)
				require.InDelta(t, 50, accepted(), 2)
				_, err = op.Rate(at, controller.Rate{})
				require.NoError(t, err)
				require.Equal(t, 1000, accepted())
				require.NoError(t, p.Stop(t.Context()))
				require.True(t, p.Snapshot().Balanced())
			})
		})
	}
}

func TestAPolicyForATimeGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, op := started(t, works("work"), pipeline.Control(policy.SEDA{}))
		is := func() string { return p.Snapshot().Policy }
		number, err := op.Policy(policy.Fixed{}, time.Minute)
		require.NoError(t, err)
		ch := last(t, p, number)
		require.Equal(t, "operator:ann", ch.Policy)
		require.Equal(t, "for 1m0s, then back to seda", ch.Why)
		time.Sleep(59 * time.Second)
		require.Equal(t, "fixed", is())
		_, err = op.Policy(policy.ERLDA{}, time.Minute)
		require.NoError(t, err)
		time.Sleep(59 * time.Second)
		require.Equal(t, "erlda", is(), "the first time is over, and has no effect")
		time.Sleep(2 * time.Second)
		require.Equal(t, "seda", is(), "the policy from before both")

		_, err = op.Policy(policy.Fixed{}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, p.SetPolicy(policy.ERLDA{}))
		time.Sleep(2 * time.Minute)
		require.Equal(t, "erlda", is(), "the program has replaced it for good")

		_, err = op.Policy(policy.SEDA{}, 0)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, "seda", is(), "for good")
		require.NoError(t, p.Stop(t.Context()))
	})
}

// Whatever an operator does, each command ends once.
func TestVerbsLoseNoCommand(t *testing.T) {
	stages := map[string]func(handler) target{
		"of a keyed stage": func(f handler) target {
			done := behaviour.NewPort[int]("done")
			st := stage.Keyed("work", func(n int) int { return n % 5 }, func(int) *keyed { return &keyed{f, done} },
				stage.Workers(1, 8), stage.Capacity(32), stage.Out(done))
			return target{st, st.Submit, func(to behaviour.Target[int]) pipeline.Part { return pipeline.Wire(done, to) }}
		},
	}
	for name, options := range map[string][]stage.Option{
		"of a plain stage":        nil,
		"of one that tries again": {stage.Retry(stage.RetryPolicy{Attempts: 3})},
		"of an ordered stage":     {stage.Ordered()},
		"of a fair stage":         {stage.Fair(func(n int) int { return n % 5 }, nil, 2)},
		"of few instances":        {stage.Instances(2)},
	} {
		stages[name] = func(f handler) target {
			st := stage.Map("work", f, append([]stage.Option{stage.Workers(1, 8), stage.Capacity(32)}, options...)...)
			return target{st, st.Submit, func(to behaviour.Target[int]) pipeline.Part { return st.To(to) }}
		}
	}
	for name, build := range stages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { loseNothing(t, build) })
		})
	}
}

type handler = func(context.Context, int) (int, error)

// target is the stage that the verbs disturb.
type target struct {
	part   pipeline.Part
	submit func(context.Context, int) error
	to     func(behaviour.Target[int]) pipeline.Part
}

// keyed is the behaviour of a key.
type keyed struct {
	f    handler
	done *behaviour.Port[int]
}

func (k *keyed) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	n, err := k.f(ctx, n)
	if err != nil {
		return behaviour.Error(err)
	}
	return behaviour.Forward(k.done, n)
}

func loseNothing(t *testing.T, build func(handler) target) {
	t.Helper()
	var ok [2000]atomic.Int64
	work := build(func(_ context.Context, n int) (int, error) {
		time.Sleep(time.Millisecond)
		if n%97 == 0 {
			panic("crashed")
		}
		return n, nil
	})
	done := stage.Sink("done", func(_ context.Context, n int) error {
		ok[n].Add(1)
		return nil
	}, stage.Capacity(8))
	p, op := started(t, work.part, work.to(done), done)
	go func() {
		for i := range 60 { // verbs at any time
			time.Sleep(7 * time.Millisecond)
			switch i % 10 {
			case 0:
				_, _ = op.Pause("work")
			case 1:
				_, _ = op.Resume("work")
			case 2:
				_, _ = op.Resize("work", 3, 16)
			case 3:
				_, _ = op.Capacity("work", 3)
			case 4:
				_, _ = op.Policy(policy.ERLDA{}, 20*time.Millisecond)
			case 5:
				_, _ = op.Resize("work", 1, 1)
			case 6:
				_, _ = op.Capacity("done", 1)
			case 7:
				_, _ = op.Resize("work", 0, 0)
			case 8:
				_, _ = op.Capacity("work", 0)
			case 9:
				_, _ = op.Drain(t.Context(), "done")
				_, _ = op.Reopen("done")
			}
		}
	}()
	for n := range ok {
		require.NoError(t, work.submit(t.Context(), n))
	}
	time.Sleep(time.Second)
	require.NoError(t, p.Stop(t.Context()))
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight)
	for n := range ok {
		want := int64(1)
		if n%97 == 0 {
			want = 0
		}
		require.Equal(t, want, ok[n].Load(), n)
	}
	require.Equal(t, 21, p.Quarantine().Len())
}

func TestVerbsAreInTheJournalWithTheirAuthor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, op := started(t, works("work", stage.Workers(1, 4)))
		for _, tt := range []struct {
			verb       func() (uint64, error)
			what       string
			from, to   any
			stage, why string
		}{
			{func() (uint64, error) { return op.Pause("work") }, "paused", false, true, "work", "asked to"},
			{func() (uint64, error) { return op.Resume("work") }, "paused", true, false, "work", "asked to"},
			{func() (uint64, error) { return op.Resize("work", 2, 6) }, "bounds", "1 to 4", "2 to 6", "work", "asked to"},
			{func() (uint64, error) { return op.Resize("work", 0, 0) }, "bounds", "2 to 6", "1 to 4", "work", "asked to"},
			{func() (uint64, error) { return op.Capacity("work", 5) }, "capacity", of(p, "work").Queue.Capacity, 5, "work", "held"},
			{func() (uint64, error) { return op.Capacity("work", 5) }, "capacity", 5, 5, "work", "held"},
			{func() (uint64, error) { return op.Drain(t.Context(), "work") }, "entry", "open", "draining", "work", "asked to"},
			{func() (uint64, error) { return op.Reopen("work") }, "entry", "draining", "open", "work", "asked to"},
		} {
			number, err := tt.verb()
			require.NoError(t, err)
			ch := last(t, p, number)
			require.Equal(t, "operator:ann", ch.Policy)
			require.Equal(t, tt.what, ch.What.String())
			require.Equal(t, tt.from, ch.Before)
			require.Equal(t, tt.to, ch.After)
			require.Equal(t, tt.stage, ch.StageName)
			require.Equal(t, tt.why, ch.Why)
			require.NotEmpty(t, ch.String())
		}
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAMistakeIsRefusedAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := works("in", stage.Instances(2), stage.Workers(1, 2))
		shared := works("shared")
		p, op := started(t, in, pipeline.Group("pool", 1, 4, shared))
		before := len(p.Journal())
		for what, try := range map[string]func() (uint64, error){
			`stage "none"`:                      func() (uint64, error) { return op.Pause("none") },
			`"in": resize to 3 to 2`:            func() (uint64, error) { return op.Resize("in", 3, 2) },
			`"in": resize to 0 to 2`:            func() (uint64, error) { return op.Resize("in", 0, 2) },
			"see stage.Instances":               func() (uint64, error) { return op.Resize("in", 1, 3) },
			`resize the group`:                  func() (uint64, error) { return op.Resize("shared", 1, 3) },
			`a capacity of -1`:                  func() (uint64, error) { return op.Capacity("in", -1) },
			`"none": not part of this pipeline`: func() (uint64, error) { return op.Drain(t.Context(), "none") },
			`use dead, quarantine or failures`:  func() (uint64, error) { return op.Drop("all", 1) },
			`letter 7`:                          func() (uint64, error) { return op.Retry(t.Context(), operate.Dead, 7) },
		} {
			number, err := try()
			require.ErrorContains(t, err, what)
			require.Zero(t, number)
		}
		_, err := op.Rate("in", controller.Rate{PerSecond: -1})
		require.Error(t, err)
		_, err = op.Pause("none")
		require.ErrorIs(t, err, pipeline.ErrNotPart)
		require.Len(t, p.Journal(), before)

		_, err = op.Resize("pool", 2, 3)
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
		_, err = op.Resize("pool", 1, 1)
		require.ErrorIs(t, err, pipeline.ErrStopped)

		unstarted, err := pipeline.New("q", works("in"), quiet())
		require.NoError(t, err)
		_, err = operate.New(unstarted, "ann").Pause("in")
		require.ErrorIs(t, err, pipeline.ErrNotRunning)
	})
}

func TestTheBoundsOfAGroupAreTheOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wants := insists{workers: 64, capacity: 50}
		p, op := started(t, pipeline.Group("pool", 1, 8, works("a"), works("b")), pipeline.Control(greedy{}))
		time.Sleep(time.Second)
		workers := func() int { return p.Snapshot().Pools[0].Workers }
		require.Equal(t, 8, workers())
		_, err := op.Resize("pool", 1, 3)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 3, workers())
		require.NoError(t, p.SetPolicy(wants))
		require.NoError(t, p.SetPolicy(greedy{}))
		time.Sleep(time.Second)
		require.Equal(t, 3, workers())
		_, err = op.Resize("pool", 0, 0)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 8, workers())
		require.NoError(t, p.Stop(t.Context()))
	})
}

// greedy wants as many workers as a shared pool may have.
type greedy struct{}

func (greedy) Name() string                 { return "greedy" }
func (greedy) Check() error                 { return nil }
func (g greedy) New() controller.Controller { return g }

func (greedy) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(10 * time.Millisecond)
	for i := range s.Pools {
		if !s.Pools[i].Own {
			controller.KnobWorkers.SetPool(d, s.Pools[i].Name, 1000, "more")
		}
	}
}

// bought is a command of the tests of letters.
type bought struct {
	Item string
	N    int
}

// mended is a stage that fails until it is mended.
func mended(broken *atomic.Bool, handled *atomic.Int64) *stage.Flow[bought, struct{}] {
	return stage.Sink("save", func(_ context.Context, b bought) error {
		time.Sleep(time.Millisecond)
		if broken.Load() || b.Item == "bad" {
			return errors.New("disk full")
		}
		handled.Add(1)
		return nil
	})
}

func TestAllAreRetriedOnlyIfTheFirstDoesNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var handled atomic.Int64
		broken.Store(true)
		save := mended(&broken, &handled)
		in := stage.Map("in", func(_ context.Context, b bought) (bought, error) { return b, nil })
		p, op := started(t, in.To(save))
		for n := range 20 {
			require.NoError(t, in.Submit(t.Context(), bought{"good", n}))
		}
		time.Sleep(time.Second)
		require.Equal(t, 20, p.Failures().Len())

		group := letters.Filter{Stage: "save", Reason: reason.Error, Fingerprint: p.Failures().Groups()[0].Fingerprint}
		n, number, err := op.RetryAll(t.Context(), operate.Failures, group)
		require.ErrorIs(t, err, operate.ErrFailedAgain)
		require.Equal(t, 1, n)
		require.Equal(t, "letter 1 failed again", last(t, p, number).Why)
		require.Equal(t, 20, p.Failures().Len())
		require.EqualValues(t, 21, p.Failures().Groups()[0].Seen)

		broken.Store(false)
		n, number, err = op.RetryAll(t.Context(), operate.Failures, group)
		require.NoError(t, err)
		require.Equal(t, 20, n)
		require.Equal(t, "retried", last(t, p, number).After)
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 20, handled.Load())
		require.Zero(t, p.Failures().Len())
		require.True(t, p.Snapshot().Balanced())
	})
}

func TestARetryThatDoesNotEndHoldsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var handled atomic.Int64
		broken.Store(true)
		save := mended(&broken, &handled)
		p, op := started(t, save)
		for n := range 3 {
			require.NoError(t, save.Submit(t.Context(), bought{"good", n}))
		}
		time.Sleep(time.Second)
		_, err := op.Pause("save")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = op.RetryAll(ctx, operate.Failures, letters.Filter{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, p.Failures().Len())
		_, err = op.Resume("save")
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, 3, p.Failures().Len(), "the one that was retried has failed again")
	})
}

func TestLettersAreEditedDroppedAndExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var handled atomic.Int64
		save := mended(&broken, &handled)
		p, op := started(t, save)
		for n := range 4 {
			require.NoError(t, save.Submit(t.Context(), bought{"bad", n}))
		}
		time.Sleep(time.Second)
		list := p.Failures().List(letters.Filter{OldestFirst: true})
		require.Len(t, list, 4)

		for text, fault := range map[string]string{`{"Item":"good"`: "unexpected EOF", `{"Itme":"good"}`: `unknown field "Itme"`, `7`: "cannot unmarshal"} {
			_, err := op.Edit(t.Context(), operate.Failures, list[0].ID, []byte(text))
			require.ErrorContains(t, err, fault)
		}
		require.Equal(t, 4, p.Failures().Len())
		number, err := op.Edit(t.Context(), operate.Failures, list[0].ID, []byte(`{"Item":"good","N":1}`))
		require.NoError(t, err)
		require.Equal(t, "edited and retried", last(t, p, number).After)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, handled.Load())

		_, err = op.Drop(operate.Failures, list[1].ID)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, op.Export(operate.Failures, &out))
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
		n, _, err := op.DropAll(operate.Failures, letters.Filter{Stage: "save"})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		_, _, err = op.DropAll(operate.Failures, letters.Filter{Stage: "save"})
		require.ErrorIs(t, err, letters.ErrNotFound)
		require.NoError(t, p.Stop(t.Context()))
	})
}
