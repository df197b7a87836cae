package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
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
		await(t, up) // although no command is handled meanwhile
		require.Zero(t, r.living("v1"))
		for n := range 20 {
			require.Equal(t, "v2", asked(t, st, n).version)
		}
		snap := p.Snapshot().Stages[0]
		require.Equal(t, "v2", snap.Version)
		require.Zero(t, snap.Counts.Crashes)
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
					if err == nil {
						await(t, up)
					}
					return err
				}})
				require.Zero(t, r.living("v1"))
				require.Equal(t, "v2", asked(t, st, 1).version)
				require.NoError(t, p.Stop(t.Context()))
				_, err = st.Upgrade(t.Context(), r.next("v3", nil))
				require.ErrorIs(t, err, stage.ErrStopped)
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
				_, err := st.Upgrade(ctx, factory)
				require.ErrorContains(t, err, test.want)
				require.Equal(t, said{"v1", 2, 2}, asked(t, st, 2), "the same instance")
				time.Sleep(2 * time.Second)
				require.Zero(t, r.living("v2"), "an instance that started too late is stopped")
				up, err := st.Upgrade(t.Context(), r.next("v3", nil))
				require.NoError(t, err, "another upgrade may start")
				await(t, up)
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

func TestAnUpgradeWaitsForTheOneBefore(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		r := newRegistry()
		st := stage.Each("s", r.factory("v1", nil))
		p := bubble(t, st)
		let := make(chan struct{})
		slow := beginning(func(context.Context) error { <-let; return nil })(r)
		done := make(chan error, 2)
		go func() { _, err := st.Upgrade(t.Context(), slow); done <- err }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := st.Upgrade(short, r.factory("v3", nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "v1", asked(t, st, 1).version, "the stage does not wait for it")
		go func() { _, err := st.Upgrade(t.Context(), r.factory("v4", nil)); done <- err }()
		synctest.Wait()
		close(let)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, "v4", asked(t, st, 1).version)
		require.NoError(t, p.Stop(t.Context()))
		r.quit(t)
		require.Zero(t, r.crowd["v3"])
	})
}

// The upgrade that holds an idle instance when the stage ends has stopped it before the stage has ended.
func TestAnUpgradeAndTheEndOfAStageStopEachInstanceOnce(t *testing.T) {
	for range lasting(100, 1000) {
		r := newRegistry()
		st := stage.Each("s", r.factory("v1", nil), stage.Workers(2, 2))
		p := start(t, st)
		asked(t, st, 1)
		done := make(chan error, 1)
		go func() { _, err := st.Upgrade(soon(t), r.factory("v2", nil)); done <- err }()
		require.NoError(t, p.Stop(soon(t)))
		if err := <-done; err != nil {
			require.ErrorIs(t, err, stage.ErrStopped)
		}
		r.quit(t)
	}
}

func TestAStageThatWasRemovedIsNotUpgraded(t *testing.T) {
	everyWay(t, func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part) {
		st := s(stage.Workers(2, 2))
		p := bubble(t, st, stage.New("other", fn(echo[int])), way)
		asked(t, st, 1)
		require.NoError(t, p.Remove(t.Context(), st))
		_, err := st.Upgrade(t.Context(), r.next("v3", nil))
		require.ErrorIs(t, err, stage.ErrStopped)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// The pipeline restarts a failed stage with the version that it had.
func TestAStageThatFailsKeepsTheVersionThatItWasUpgradedTo(t *testing.T) {
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
			st := kinds(r)[kind](stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
			p := start(t, st, pipeline.Intensity(5, time.Minute))
			up, err := st.Upgrade(t.Context(), r.next("v2", do))
			require.NoError(t, err)
			asked(t, st, 1)
			await(t, up)
			bad.Store(true)
			_, err = stage.Call[said](soon(t), st, 1)
			require.Error(t, err)
			bad.Store(false)
			eventually(t, "it is back", func() bool {
				got, err := stage.Call[said](soon(t), st, 1)
				return err == nil && got.version == "v2"
			})
			again, err := st.Upgrade(soon(t), r.next("v3", nil))
			require.NoError(t, err)
			await(t, again)
			require.Equal(t, "v3", asked(t, st, 1).version)
			require.NoError(t, p.Stop(soon(t)))
			r.quit(t)
		})
	}
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
		close(hold)
		await(t, up)
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

func TestBatchersAndOthersReplaceOneAnother(t *testing.T) {
	type maker = func(*registry, string, func(context.Context, *being, int) behaviour.Outcome) behaviour.Factory[int]
	singly, many := (*registry).factory, (*registry).herds
	for name, test := range map[string][2]maker{
		"many, many": {many, many}, "many, one": {many, singly}, "one, many": {singly, many},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				r := newRegistry()
				st := stage.Each("s", test[0](r, "v1", nil), stage.Workers(1, 1), stage.Batch(16))
				p := bubble(t, st, way)
				var tickets []*stage.Ticket
				for n := range 100 {
					ticket, err := st.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
					if n == 50 {
						_, err := st.Upgrade(t.Context(), test[1](r, "v2", nil))
						require.NoError(t, err)
					}
				}
				for n, ticket := range tickets {
					got, err := ticket.Wait(soon(t))
					require.NoError(t, err)
					require.Equal(t, n, got.(said).n)
					if n > 50 {
						require.Equal(t, "v2", got.(said).version)
					}
				}
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
				r.quit(t)
			})
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
	eventually(t, "one is in hand", func() bool { return p.Snapshot().Stages[0].Queue.InHand == 1 })
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(soon(t)) }()
	eventually(t, "it drains", func() bool { return errors.Is(st.Submit(t.Context(), 1), stage.ErrClosed) })
	up, err := st.Upgrade(t.Context(), r.factory("v2", nil))
	require.NoError(t, err)
	close(hold)
	require.NoError(t, <-drained)
	await(t, up)
	got, err := tickets[9].Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, "v2", got.(said).version)
	require.NoError(t, p.Stop(soon(t)))
	r.quit(t)
}
