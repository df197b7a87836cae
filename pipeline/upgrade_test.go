package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/upgrade"
)

func TestAfterAnUpgradeTheNewVersionHandlesAllCommandsAndTheOldOneIsStopped(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		st := s(stage.Workers(3, 3))
		p := bubble(t, st, way)
		for n := range 20 {
			require.Equal(t, "v1", asked(t, st, n).version)
		}
		require.Equal(t, "v1", p.Snapshot().Stages[0].Version)
		up, err := st.Upgrade(t.Context(), r.next("v2", nil))
		require.NoError(t, err)
		require.NoError(t, up.Wait(soon(t)), "although no command is handled meanwhile")
		require.Zero(t, r.living("v1"))
		for n := range 20 {
			require.Equal(t, "v2", asked(t, st, n).version)
		}
		snap := p.Snapshot().Stages[0]
		require.Equal(t, "v2", snap.Version)
		require.Nil(t, snap.Rollout)
		require.Zero(t, snap.Crashes)
		require.Equal(t, upgrade.Promoted, up.Status().State)
		require.NoError(t, up.Promote(), "it is already")
		require.ErrorIs(t, up.Rollback(), upgrade.ErrPromoted)
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

func TestAnUpgradeIsPossibleAtAnyTime(t *testing.T) {
	type life struct {
		t  *testing.T
		p  *pipeline.Pipeline
		st *stage.Stage[int]
		up func() error
	}
	begin := func(l *life) { require.NoError(l.t, l.p.Start(l.t.Context())) }
	tests := map[string]func(l *life){
		"before the start": func(l *life) {
			require.NoError(l.t, l.up())
			begin(l)
		},
		"while it runs": func(l *life) {
			begin(l)
			require.NoError(l.t, l.up())
		},
		"while it is paused": func(l *life) {
			begin(l)
			require.NoError(l.t, l.p.Pause(l.st))
			require.NoError(l.t, l.up())
			require.NoError(l.t, l.p.Resume(l.st))
		},
		"twice in a row": func(l *life) {
			begin(l)
			require.NoError(l.t, l.up())
			require.NoError(l.t, l.up())
		},
		"before and after": func(l *life) {
			require.NoError(l.t, l.up())
			begin(l)
			require.NoError(l.t, l.up())
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
				st := s(stage.Workers(2, 2))
				p, err := pipeline.New("life", unscaled([]pipeline.Part{st, way})...)
				require.NoError(t, err)
				test(&life{t, p, st, func() error {
					up, err := st.Upgrade(t.Context(), r.next("v2", nil))
					if err != nil {
						return err
					}
					return up.Wait(soon(t))
				}})
				require.Zero(t, r.living("v1"))
				require.Equal(t, "v2", asked(t, st, 1).version)
				require.NoError(t, p.Stop(t.Context()))
				_, err = st.Upgrade(t.Context(), r.next("v3", nil))
				require.ErrorIs(t, err, upgrade.ErrEnded)
				require.Zero(t, r.living("v3"))
			})
		})
	}
}

func TestAnUpgradeThatFailsItsTrialChangesNothing(t *testing.T) {
	over, cancel := context.WithCancelCause(context.Background())
	cancel(errNo)
	tests := map[string]struct {
		ctx     context.Context
		factory func(r *registry) behaviour.Factory[int]
		opts    []upgrade.Option
		want    string
	}{
		"no factory":   {factory: func(*registry) behaviour.Factory[int] { return nil }, want: `stage "s": Upgrade: the factory is nil`},
		"no behaviour": {factory: func(*registry) behaviour.Factory[int] { return func() behaviour.Behaviour[int] { return nil } }, want: "the factory returned no behaviour"},
		"a nil in it": {factory: func(*registry) behaviour.Factory[int] {
			return func() behaviour.Behaviour[int] { return (*being)(nil) }
		}, want: "the factory returned no behaviour"},
		"a panic":       {factory: func(*registry) behaviour.Factory[int] { return func() behaviour.Behaviour[int] { panic("oh") } }, want: "crash: oh"},
		"a bad start":   {factory: beginning(func(context.Context) error { return errBad }), want: `stage "s": upgrade: stage "s": start: bad`},
		"a start panic": {factory: beginning(func(context.Context) error { panic("oh") }), want: "crash: oh"},
		"a start that waits": {ctx: over, factory: beginning(func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}), want: "start: no"},
		"a start that ignores its context": {ctx: over, factory: beginning(func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}), want: "start: no"},
		"a fraction of none":   {opts: []upgrade.Option{upgrade.Canary(0)}, want: "Canary(0): must be above 0 and at most 1"},
		"more than all":        {opts: []upgrade.Option{upgrade.Canary(1.5)}, want: "Canary(1.5)"},
		"no canary":            {opts: []upgrade.Option{upgrade.MaxCrashes(1)}, want: "mean nothing without a Canary"},
		"a negative":           {opts: []upgrade.Option{upgrade.Canary(1), upgrade.MaxCrashes(-1)}, want: "MaxCrashes(-1): must not be negative"},
		"a margin beyond all":  {opts: []upgrade.Option{upgrade.Canary(1), upgrade.MaxErrors(2, 1)}, want: "MaxErrors(2, 1): the margin"},
		"errors of none":       {opts: []upgrade.Option{upgrade.Canary(1), upgrade.MaxErrors(0, 0)}, want: "at least 1 command"},
		"no trial":             {opts: []upgrade.Option{upgrade.Canary(1), upgrade.PromoteAfter(0, 0)}, want: "asks for no trial"},
		"a trial in the past":  {opts: []upgrade.Option{upgrade.Canary(1), upgrade.PromoteAfter(0, -1)}, want: "must not be negative"},
		"a key of other types": {opts: []upgrade.Option{upgrade.Canary(1), upgrade.By(func(string) string { return "" })}, want: "not a key of the stage's commands, int"},
		"two canaries":         {opts: []upgrade.Option{upgrade.Canary(0.1), upgrade.Canary(0.2)}, want: `stage "s": Canary: is given twice`},
		"two of another":       {opts: []upgrade.Option{upgrade.Canary(1), upgrade.MaxCrashes(1), upgrade.MaxCrashes(2)}, want: "MaxCrashes: is given twice"},
		"a nil option":         {opts: []upgrade.Option{upgrade.Canary(1), nil}, want: `stage "s": Upgrade: option 2: is nil`},
		"a nil key":            {opts: []upgrade.Option{upgrade.Canary(1), upgrade.By[int](nil)}, want: "the key is nil"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
				st := s(stage.Workers(1, 1))
				p := bubble(t, st, way)
				asked(t, st, 1)
				factory := r.next("v2", nil)
				if test.factory != nil {
					factory = test.factory(r)
				}
				ctx := test.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				_, err := st.Upgrade(ctx, factory, test.opts...)
				require.ErrorContains(t, err, test.want)
				require.Equal(t, said{"v1", 2, 2}, asked(t, st, 2), "the same instance")
				time.Sleep(2 * time.Second)
				require.Zero(t, r.living("v2"), "an instance that started too late is stopped")
				up, err := st.Upgrade(t.Context(), r.next("v3", nil))
				require.NoError(t, err, "another upgrade may start")
				require.NoError(t, up.Wait(soon(t)))
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// beginning returns a factory of instances with a Start function.
func beginning(begin func(context.Context) error) func(r *registry) behaviour.Factory[int] {
	return func(r *registry) behaviour.Factory[int] {
		return func() behaviour.Behaviour[int] {
			b := r.make("v2", nil)
			b.begin = begin
			return r.shaped(b)
		}
	}
}

func TestOnlyOneUpgradeRunsAtATime(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		r := newRegistry()
		st := stage.Each("s", r.factory("v1", nil))
		p := bubble(t, st)
		let := make(chan struct{})
		slow := beginning(func(context.Context) error { <-let; return nil })(r)
		done := make(chan error, 1)
		go func() { _, err := st.Upgrade(t.Context(), slow, upgrade.Canary(0.5)); done <- err }()
		synctest.Wait()
		_, err := st.Upgrade(t.Context(), r.factory("v3", nil))
		require.ErrorIs(t, err, upgrade.ErrUpgrading, "one is about to start")
		require.Equal(t, "v1", asked(t, st, 1).version, "the stage does not wait for it")
		close(let)
		require.NoError(t, <-done)
		_, err = st.Upgrade(t.Context(), r.factory("v3", nil))
		require.ErrorIs(t, err, upgrade.ErrUpgrading, "one is on trial")
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
		require.Zero(t, r.crowd["v3"])
	})
}

// The old instance finishes its batch. The new instance, which is made when the old one was stopped, handles the next.
func TestWithOneInstanceTheNewVersionStartsWhenTheOldOneHasStopped(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		r := newRegistry()
		hold := make(chan struct{})
		st := stage.Each("s", r.factory("v1", func(ctx context.Context, b *being, n int) behaviour.Outcome {
			<-hold
			return answer(ctx, b, n)
		}), stage.Workers(4, 4), stage.Instances(1), stage.Batch(2))
		p := bubble(t, st, way)
		var tickets []*stage.Ticket
		for n := range 9 {
			ticket, err := st.Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
			if n == 0 {
				synctest.Wait() // one command is in hand
			}
		}
		up, err := st.Upgrade(t.Context(), r.factory("v2", nil))
		require.NoError(t, err)
		require.Equal(t, 1, r.living("v1"))
		require.Equal(t, 1, r.living("v2"), "the trial's instance waits")
		require.Equal(t, 1, up.Status().Old.Instances)
		close(hold)
		require.NoError(t, up.Wait(soon(t)))
		for n, ticket := range tickets {
			got, err := ticket.Wait(soon(t))
			require.NoError(t, err)
			want := said{"v2", n, n}
			if n == 0 {
				want = said{"v1", 0, 1}
			}
			require.Equal(t, want, got)
		}
		require.Equal(t, 1, r.crowd["v2"])
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
	})
}

func TestACanaryGetsExactlyItsFraction(t *testing.T) {
	for _, fraction := range []float64{0.01, 0.1, 0.25, 0.5, 0.999, 1} {
		everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
			st := s(stage.Workers(1, 1), stage.Batch(8))
			p := bubble(t, st, way)
			up, err := st.Upgrade(t.Context(), r.next("v2", nil), upgrade.Canary(fraction))
			require.NoError(t, err)
			var tickets []*stage.Ticket
			for n := range 400 {
				ticket, err := st.Ask(t.Context(), n)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
			}
			fresh := 0
			for n, ticket := range tickets {
				got, err := ticket.Wait(soon(t))
				require.NoError(t, err)
				if got.(said).version == "v2" {
					fresh++
				}
				require.Equal(t, int(float64(n+1)*fraction), fresh, "after %d commands", n+1)
			}
			snap := p.Snapshot().Stages[0]
			require.Equal(t, "v1", snap.Version)
			require.EqualValues(t, fresh, snap.Rollout.New.Commands)
			require.EqualValues(t, 400-fresh, snap.Rollout.Old.Commands)
			require.Equal(t, upgrade.OnTrial, up.Status().State)
			require.NoError(t, p.Stop(t.Context()))
			require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrEnded)
			require.Equal(t, upgrade.RolledBack, up.Status().State)
		})
	}
}

func TestATrialThatStartsBeforeThePipelineContinuesAfterIt(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		st := s(stage.Workers(2, 2))
		p, err := pipeline.New("early", unscaled([]pipeline.Part{st, way})...)
		require.NoError(t, err)
		up, err := st.Upgrade(t.Context(), r.next("v2", nil), upgrade.Canary(0.5), upgrade.PromoteAfter(5, 0))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for range 10 {
			asked(t, st, 1)
		}
		require.NoError(t, up.Wait(soon(t)))
		require.EqualValues(t, 5, up.Status().New.Commands)
		require.Equal(t, "v2", asked(t, st, 1).version)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAStageThatWasRemovedIsNotUpgraded(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		st := s(stage.Workers(2, 2))
		p := bubble(t, st, stage.New("other", fn(echo[int])), way)
		asked(t, st, 1)
		up, err := st.Upgrade(t.Context(), r.next("v2", nil), upgrade.Canary(0.5))
		require.NoError(t, err)
		asked(t, st, 1)
		require.NoError(t, p.Remove(t.Context(), st))
		require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrEnded)
		_, err = st.Upgrade(t.Context(), r.next("v3", nil))
		require.ErrorIs(t, err, upgrade.ErrEnded)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestCommandsOfOneKeyGoToOneVersion(t *testing.T) {
	way := func(fraction float64) map[int]string {
		r := newRegistry()
		st := stage.Each("s", r.factory("v1", nil), stage.Workers(4, 4))
		p := start(t, st)
		_, err := st.Upgrade(t.Context(), r.factory("v2", nil), upgrade.Canary(fraction),
			upgrade.By(func(n int) string { return string(rune('a' + n%1000)) }))
		require.NoError(t, err)
		of := map[int]string{}
		for n := range 3000 {
			got := asked(t, st, n)
			if was := of[n%1000]; was != "" {
				require.Equal(t, was, got.version)
			}
			of[n%1000] = got.version
		}
		require.NoError(t, p.Stop(soon(t)))
		r.quit(t)
		return of
	}
	few, many := way(0.1), way(0.3)
	fresh := 0
	for key, version := range few {
		if version == "v2" {
			fresh++
			require.Equal(t, "v2", many[key], "a larger fraction includes the keys of a smaller one")
		}
	}
	require.InDelta(t, 100, fresh, 40)
}

func TestACrashOfTheCanaryCostsNoCommand(t *testing.T) {
	tests := map[string]struct {
		do    func(ctx context.Context, b *being, n int) behaviour.Outcome
		start error
		opts  []upgrade.Option
	}{
		"panic":           {do: crash},
		"goexit":          {do: exit},
		"key that panics": {opts: []upgrade.Option{upgrade.By(func(int) string { panic("no key") })}},
		"key that ends":   {opts: []upgrade.Option{upgrade.By(func(int) string { runtime.Goexit(); return "" })}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
				var out bytes.Buffer
				st := s(stage.Workers(1, 1))
				p := bubble(t, st, way, pipeline.Logger(slog.New(slog.NewTextHandler(&out, nil))))
				up, err := st.Upgrade(t.Context(), r.next("v2", test.do), append(test.opts, upgrade.Canary(0.5))...)
				require.NoError(t, err)
				var tickets []*stage.Ticket
				for n := range 10 {
					ticket, err := st.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				for n, ticket := range tickets {
					got, err := ticket.Wait(soon(t))
					require.NoError(t, err)
					require.Equal(t, said{"v1", n, n + 1}, got, "the old instance continues, in order")
				}
				err = up.Wait(soon(t))
				require.ErrorIs(t, err, upgrade.ErrCanary)
				crash, ok := errors.AsType[*stage.CrashError](err)
				require.True(t, ok)
				require.Equal(t, "v2", crash.Version)
				require.Equal(t, upgrade.RolledBack, up.Status().State)
				require.EqualValues(t, 1, up.Status().New.Crashes)
				require.Zero(t, r.living("v2"))
				require.Zero(t, p.Quarantine().Len())
				snap := p.Snapshot()
				require.EqualValues(t, 1, snap.Stages[0].Crashes)
				require.Zero(t, snap.DeadLettered)
				require.Contains(t, out.String(), `msg="upgrade rolled back" pipeline=bubble stage=s old=v1 new=v2 reason=`)
				require.Contains(t, out.String(), `msg="handler crashed" pipeline=bubble stage=s attempt=1 again=true version=v2`)
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}

func TestACrashInBothVersionsCountsOnlyForTheOldOne(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, _ func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		r2 := newRegistry()
		st := stage.Each("s", r2.factory("v1", crash), stage.Workers(1, 1))
		p := bubble(t, st, way)
		up, err := st.Upgrade(t.Context(), r.factory("v2", crash), upgrade.Canary(1), upgrade.MaxCrashes(3))
		require.NoError(t, err)
		for n := range 3 {
			_, err = stage.Call[said](t.Context(), st, n)
			crash, ok := errors.AsType[*stage.CrashError](err)
			require.True(t, ok, err)
			require.Equal(t, 1, crash.Attempts)
			require.Equal(t, "v1", crash.Version)
		}
		status := up.Status()
		require.Equal(t, upgrade.OnTrial, status.State)
		require.EqualValues(t, 3, status.New.Crashes)
		require.EqualValues(t, 3, status.Old.Crashes)
		require.Equal(t, "v1", p.Quarantine().List(pipeline.LetterFilter{})[0].Version)
		_, err = stage.Call[said](t.Context(), st, 3)
		require.Error(t, err)
		require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrCanary, "one crash too many")
		require.NoError(t, p.Stop(t.Context()))
		r2.quit(t)
	})
}

func TestErrorsBeyondTheMarginRollACanaryBack(t *testing.T) {
	failing := func(every int) func(ctx context.Context, b *being, n int) behaviour.Outcome {
		return func(_ context.Context, b *being, _ int) behaviour.Outcome {
			if every > 0 && b.count%every == 0 {
				return behaviour.Error(errBad)
			}
			return behaviour.OK(nil)
		}
	}
	tests := map[string]struct {
		old, fresh int // one in this number is an error
		opts       []upgrade.Option
		commands   int
		want       upgrade.State
	}{
		"none":                         {0, 0, nil, 1000, upgrade.OnTrial},
		"too many":                     {0, 2, nil, 1000, upgrade.RolledBack},
		"too early to tell":            {0, 1, nil, 198, upgrade.OnTrial},
		"just enough":                  {0, 1, nil, 200, upgrade.RolledBack},
		"as many as before":            {2, 2, nil, 1000, upgrade.OnTrial},
		"within the margin":            {0, 4, []upgrade.Option{upgrade.MaxErrors(0.25, 4)}, 1000, upgrade.OnTrial},
		"beyond it":                    {0, 3, []upgrade.Option{upgrade.MaxErrors(0.25, 4)}, 1000, upgrade.RolledBack},
		"promoted":                     {0, 0, []upgrade.Option{upgrade.PromoteAfter(50, 0)}, 100, upgrade.Promoted},
		"not yet":                      {0, 0, []upgrade.Option{upgrade.PromoteAfter(51, 0)}, 100, upgrade.OnTrial},
		"looked at before it is":       {0, 2, []upgrade.Option{upgrade.PromoteAfter(10, 0)}, 100, upgrade.RolledBack},
		"neither long nor long enough": {0, 0, []upgrade.Option{upgrade.PromoteAfter(10, time.Hour)}, 100, upgrade.OnTrial},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				r := newRegistry()
				st := stage.Each("s", r.factory("v1", failing(test.old)), stage.Workers(1, 1))
				p := bubble(t, st, way)
				up, err := st.Upgrade(t.Context(), r.factory("v2", failing(test.fresh)), append(test.opts, upgrade.Canary(0.5))...)
				require.NoError(t, err)
				for n := range test.commands {
					_, _ = stage.Call[any](t.Context(), st, n)
				}
				status := up.Status()
				require.Equal(t, test.want, status.State, status)
				if test.want == upgrade.RolledBack {
					require.ErrorIs(t, status.Why, upgrade.ErrCanary)
				}
				require.NoError(t, p.Stop(t.Context()))
				r.quit(t)
			})
		})
	}
}

func TestATrialLastsItsTime(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		st := s(stage.Workers(2, 2))
		p := bubble(t, st, way)
		up, err := st.Upgrade(t.Context(), r.next("v2", nil), upgrade.Canary(0.5), upgrade.PromoteAfter(0, time.Minute))
		require.NoError(t, err)
		asked(t, st, 1)
		time.Sleep(59 * time.Second)
		require.Equal(t, upgrade.OnTrial, up.Status().State)
		time.Sleep(2 * time.Second)
		require.Equal(t, upgrade.Promoted, up.Status().State)
		require.NoError(t, up.Wait(soon(t)))
		require.Zero(t, r.living("v1"))
		require.Equal(t, "v2", asked(t, st, 1).version)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestATrialEndsWhenTheUserPromotesItOrRollsItBack(t *testing.T) {
	for name, promote := range map[string]bool{"promoted": true, "rolled back": false} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
				st := s(stage.Workers(1, 1))
				p := bubble(t, st, way)
				up, err := st.Upgrade(t.Context(), r.next("v2", nil), upgrade.Canary(0.5))
				require.NoError(t, err)
				for n := range 10 {
					asked(t, st, n)
				}
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, up.Wait(short), context.DeadlineExceeded)
				wins, loses, count := "v2", "v1", 6
				if promote {
					require.NoError(t, up.Promote())
					require.ErrorIs(t, up.Rollback(), upgrade.ErrPromoted)
					require.NoError(t, up.Wait(soon(t)))
				} else {
					wins, loses = loses, wins
					require.NoError(t, up.Rollback())
					require.NoError(t, up.Rollback())
					require.ErrorIs(t, up.Promote(), upgrade.ErrRolledBack)
					require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrRolledBack)
				}
				require.Zero(t, r.living(loses))
				require.Equal(t, said{wins, 7, count}, asked(t, st, 7), "the instance continues unchanged")
				require.Equal(t, wins, p.Snapshot().Stages[0].Version)
				_, err = st.Upgrade(t.Context(), r.next("v3", nil), upgrade.Canary(1))
				require.NoError(t, err)
				require.Equal(t, "v3", asked(t, st, 7).version)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestBatchersAndOthersReplaceOneAnother(t *testing.T) {
	singly := func(r *registry, v string, do func(context.Context, *being, int) behaviour.Outcome) behaviour.Factory[int] {
		return r.factory(v, do)
	}
	many := func(r *registry, v string, do func(context.Context, *being, int) behaviour.Outcome) behaviour.Factory[int] {
		return r.herds(v, do)
	}
	type maker = func(*registry, string, func(context.Context, *being, int) behaviour.Outcome) behaviour.Factory[int]
	tests := map[string][2]maker{
		"many, many": {many, many}, "many, one": {many, singly}, "one, many": {singly, many},
	}
	for name, test := range tests {
		for what, do := range map[string]func(context.Context, *being, int) behaviour.Outcome{"well": nil, "crash": crash} {
			t.Run(name+" "+what, func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) {
					r := newRegistry()
					st := stage.Each("s", test[0](r, "v1", nil), stage.Workers(1, 1), stage.Batch(16))
					p := bubble(t, st, way)
					up, err := st.Upgrade(t.Context(), test[1](r, "v2", do), upgrade.Canary(0.25))
					require.NoError(t, err)
					var tickets []*stage.Ticket
					for n := range 100 {
						ticket, err := st.Ask(t.Context(), n)
						require.NoError(t, err)
						tickets = append(tickets, ticket)
					}
					fresh := 0
					for n, ticket := range tickets {
						got, err := ticket.Wait(soon(t))
						require.NoError(t, err)
						require.Equal(t, n, got.(said).n)
						if got.(said).version == "v2" {
							fresh++
						}
					}
					if do == nil {
						require.Equal(t, 25, fresh)
						require.NoError(t, up.Promote())
						require.NoError(t, up.Wait(soon(t)))
					} else {
						require.Zero(t, fresh)
						require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrCanary)
					}
					require.NoError(t, p.Stop(t.Context()))
					atRest(t, p)
					r.quit(t)
				})
			})
		}
	}
}

func TestAStuckCanaryIsAbandonedAndTheOldVersionContinues(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		r := newRegistry()
		let := make(chan struct{})
		st := stage.Each("s", r.factory("v1", nil), stage.Workers(1, 1), stage.Timeout(time.Second), stage.Grace(time.Second))
		p := bubble(t, st, way)
		up, err := st.Upgrade(t.Context(), r.factory("v2", func(ctx context.Context, b *being, n int) behaviour.Outcome {
			<-let
			return answer(ctx, b, n)
		}), upgrade.Canary(0.5))
		require.NoError(t, err)
		for n := range 4 {
			require.Equal(t, said{"v1", n, n + 1}, asked(t, st, n))
		}
		require.Equal(t, upgrade.RolledBack, up.Status().State)
		require.ErrorIs(t, up.Status().Why, stage.ErrStuck)
		require.Equal(t, 1, up.Status().New.Instances, "it is still there")
		again, err := st.Upgrade(t.Context(), r.factory("v3", nil))
		require.NoError(t, err, "another upgrade is possible")
		require.NoError(t, again.Wait(soon(t)))
		close(let)
		require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrCanary)
		require.Zero(t, r.living("v2"))
		require.Equal(t, "v3", asked(t, st, 1).version)
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
	})
}

// The canary's part of a batch comes first. If the canary is stuck, its abandoned worker does not start the old version's part when it
// comes back.
func TestTheAnswersOfAnAbandonedCanaryToItsPartOfABatchAreIgnored(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		r := newRegistry()
		let := make(chan struct{})
		st := stage.Each("s", r.herds("v1", nil), stage.Workers(1, 1), stage.Batch(16), stage.Timeout(time.Second), stage.Grace(time.Second))
		p := bubble(t, st, way)
		up, err := st.Upgrade(t.Context(), r.herds("v2", func(ctx context.Context, b *being, n int) behaviour.Outcome {
			<-let
			return answer(ctx, b, n)
		}), upgrade.Canary(0.5), upgrade.MaxCrashes(8))
		require.NoError(t, err)
		require.NoError(t, p.Pause(st))
		var tickets []*stage.Ticket
		for n := range 4 {
			ticket, err := st.Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		require.NoError(t, p.Resume(st))
		for n, ticket := range tickets {
			got, err := ticket.Wait(soon(t))
			require.NoError(t, err)
			require.Equal(t, said{"v1", n, n + 1}, got, "the old version handles each once")
		}
		before := up.Status()
		require.NotZero(t, before.New.Crashes)
		close(let)
		require.Eventually(t, func() bool { return st.Snapshot().Abandoned == 0 }, time.Minute, time.Millisecond)
		require.Equal(t, before.New.Commands, up.Status().New.Commands, "late answers do not count")
		require.NoError(t, up.Rollback())
		require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrRolledBack)
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
	})
}

// The canary handles its part of the batch 0 to 3: commands 1 and 3. Then the old version crashes at command 0, once. The crash counts for
// a command of the old version, and not for the canary's.
func TestCommandsThatACanaryAnsweredAreNotHandledAgainWhenTheOldVersionCrashes(t *testing.T) {
	for name, end := range map[string]func(context.Context){
		"panic":  func(context.Context) { panic("on purpose") },
		"goexit": func(context.Context) { runtime.Goexit() },
		"stuck":  func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Minute); runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				r := newRegistry()
				var mu sync.Mutex
				succeeded, failed, crashed := map[int]int{}, map[int]int{}, false
				do := func(ctx context.Context, b *being, n int) behaviour.Outcome {
					mu.Lock()
					first := n == 0 && !crashed
					crashed = crashed || first
					mu.Unlock()
					if first {
						end(ctx)
					}
					mu.Lock()
					defer mu.Unlock()
					if n == 3 && failed[n] == 0 {
						failed[n]++
						return behaviour.Error(errBad)
					}
					if n < 100 {
						succeeded[n]++
					}
					return answer(ctx, b, n)
				}
				st := stage.Each("s", r.herds("v1", do), stage.Workers(1, 1), stage.Batch(16),
					stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Timeout(time.Second), stage.Grace(time.Second))
				p := bubble(t, st, way)
				for range 8 {
					asked(t, st, 100) // batches become larger because the commands are quick
				}
				up, err := st.Upgrade(t.Context(), r.herds("v2", do), upgrade.Canary(0.5), upgrade.MaxErrors(1, 1000))
				require.NoError(t, err)
				require.NoError(t, p.Pause(st))
				var tickets []*stage.Ticket
				for n := range 4 {
					if n == 1 { // no caller waits for this one
						require.NoError(t, st.Submit(t.Context(), n))
						continue
					}
					ticket, err := st.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				require.NoError(t, p.Resume(st))
				for _, ticket := range tickets {
					_, err := ticket.Wait(soon(t))
					require.NoError(t, err)
				}
				require.NoError(t, up.Rollback())
				require.ErrorIs(t, up.Wait(soon(t)), upgrade.ErrRolledBack)
				require.NoError(t, p.Stop(t.Context()))
				time.Sleep(time.Minute) // the stuck handler comes back
				require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1, 3: 1}, succeeded)
				require.Equal(t, map[int]int{3: 1}, failed)
				atRest(t, p)
				r.quit(t)
			})
		})
	}
}

func TestACanaryThatCannotStartASecondInstanceIsRolledBack(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		r := newRegistry()
		var made atomic.Int64
		hold := make(chan struct{})
		st := stage.Each("s", r.factory("v1", nil), stage.Workers(2, 2), stage.Batch(1))
		p := bubble(t, st, way)
		up, err := st.Upgrade(t.Context(), func() behaviour.Behaviour[int] {
			b := r.make("v2", func(ctx context.Context, b *being, n int) behaviour.Outcome {
				<-hold
				return answer(ctx, b, n)
			})
			b.begin = func(context.Context) error {
				if made.Add(1) > 1 {
					return errBad
				}
				return nil
			}
			return b
		}, upgrade.Canary(1))
		require.NoError(t, err)
		first, err := st.Ask(t.Context(), 1)
		require.NoError(t, err)
		synctest.Wait()
		if way != nil {
			second, err := st.Ask(t.Context(), 2)
			require.NoError(t, err)
			synctest.Wait()
			if r.living("v2") == 1 && up.Status().State == upgrade.RolledBack {
				got, err := second.Wait(soon(t))
				require.NoError(t, err)
				require.Equal(t, "v1", got.(said).version)
				require.ErrorIs(t, up.Status().Why, errBad)
			}
		}
		close(hold)
		_, err = first.Wait(soon(t))
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
	})
}

// The pipeline restarts a failed stage. The version that was on trial is not on trial afterwards.
func TestAStageThatFailsEndsItsTrial(t *testing.T) {
	for kind := range kinds(newRegistry()) {
		t.Run(kind, func(t *testing.T) {
			r := newRegistry()
			var bad atomic.Bool
			do := func(ctx context.Context, b *being, n int) behaviour.Outcome {
				if bad.Load() {
					panic("broken")
				}
				return answer(ctx, b, n)
			}
			st := stage.Each("s", r.factory("v1", do), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
			if kind != "each" {
				r.suspends = kind == "suspending"
				st = stage.New("s", r.next("v1", do)(), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
			}
			p := start(t, st, pipeline.Intensity(5, time.Minute))
			up, err := st.Upgrade(t.Context(), r.next("v2", do), upgrade.Canary(0.5))
			require.NoError(t, err)
			asked(t, st, 1)
			bad.Store(true)
			for i := 0; up.Status().State == upgrade.OnTrial; i++ {
				_, _ = stage.Call[said](soon(t), st, i)
			}
			bad.Store(false)
			require.Error(t, up.Wait(soon(t)))
			eventually(t, "it is back", func() bool {
				got, err := stage.Call[said](soon(t), st, 1)
				return err == nil && got.version == "v1"
			})
			again, err := st.Upgrade(soon(t), r.next("v3", nil))
			require.NoError(t, err)
			require.NoError(t, again.Wait(soon(t)))
			require.Equal(t, "v3", asked(t, st, 1).version)
			require.NoError(t, p.Stop(soon(t)))
			r.quit(t)
		})
	}
}

func TestAStageIsUpgradedWhileItDrains(t *testing.T) {
	r := newRegistry()
	hold := make(chan struct{})
	st := stage.Each("s", r.factory("v1", func(ctx context.Context, b *being, n int) behaviour.Outcome {
		<-hold
		return answer(ctx, b, n)
	}), stage.Workers(1, 1), stage.Batch(1))
	p := start(t, st)
	var tickets []*stage.Ticket
	for n := range 10 {
		ticket, err := st.Ask(t.Context(), n)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	eventually(t, "one is in hand", func() bool { return p.Snapshot().Stages[0].InHand == 1 })
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(soon(t)) }()
	eventually(t, "it drains", func() bool { return errors.Is(st.Submit(t.Context(), 1), stage.ErrClosed) })
	up, err := st.Upgrade(t.Context(), r.factory("v2", nil))
	require.NoError(t, err)
	close(hold)
	require.NoError(t, <-drained)
	require.NoError(t, up.Wait(soon(t)))
	got, err := tickets[9].Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, "v2", got.(said).version)
	require.NoError(t, p.Stop(soon(t)))
	r.quit(t)
}

func TestCommandsThatACanaryEmittedBeforeItsCrashAreNotSentTwice(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		r := newRegistry()
		var got []int
		sink := stage.Func("sink", func(_ context.Context, n int) behaviour.Outcome {
			got = append(got, n)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1), stage.Instances(1))
		sends := func(ends func(context.Context, *being, int) behaviour.Outcome) func(context.Context, *being, int) behaviour.Outcome {
			return func(ctx context.Context, b *being, n int) behaviour.Outcome {
				if err := behaviour.Emit(ctx, sink, n); err != nil {
					return behaviour.Error(err)
				}
				return ends(ctx, b, n)
			}
		}
		st := stage.Each("s", r.factory("v1", sends(answer)), stage.Workers(1, 1))
		p := bubble(t, st, sink, way)
		up, err := st.Upgrade(t.Context(), r.factory("v2", sends(crash)), upgrade.Canary(0.5), upgrade.MaxCrashes(100))
		require.NoError(t, err)
		var tickets []*stage.Ticket
		for n := range 20 {
			ticket, err := st.Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		for n, ticket := range tickets {
			answer, err := ticket.Wait(soon(t))
			require.NoError(t, err)
			require.Equal(t, said{"v1", n, n + 1}, answer)
		}
		synctest.Wait()
		require.Len(t, got, 20)
		require.True(t, slices.IsSorted(got))
		require.Positive(t, up.Status().New.Crashes)
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
		r.quit(t)
	})
}
