package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// failing returns a handler for numbers that fails the first n attempts of each command, and then answers the number.
func failing(n int) func(context.Context, *tried) behaviour.Outcome {
	return func(_ context.Context, cmd *tried) behaviour.Outcome {
		if cmd.tries++; cmd.tries <= n {
			return behaviour.Error(errNo)
		}
		return behaviour.OK(cmd.id)
	}
}

type tried struct{ id, tries int }

// A command that waits for its retry keeps its slot, so a stage of capacity 64 never holds many more than 64 commands, whatever is
// submitted, and refuses no retry.
func TestManyRetriesCauseBackPressureAtTheEntry(t *testing.T) {
	commands := 100_000
	if testing.Short() || raced {
		commands = 10_000
	}
	const capacity, batch, workers = 64, 16, 2
	policy := stage.RetryPolicy{Attempts: 3, Backoff: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	for name, submitters := range map[string]int{"one submitter": 1, "many submitters": 20} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.New("s", fn(failing(2)), stage.Workers(workers, workers), stage.Batch(batch),
					stage.Capacity(capacity), stage.Retry(policy))
				p := bubble(t, s)
				done := make(chan *stage.Ticket, commands)
				for first := range submitters {
					go func() {
						for id := first; id < commands; id += submitters {
							ticket, err := s.Ask(t.Context(), &tried{id: id})
							if err != nil {
								t.Error(err)
							}
							done <- ticket
						}
					}()
				}
				most := 0
				for i := range commands {
					_, err := (<-done).Wait(t.Context())
					require.NoError(t, err)
					if i%64 == 0 {
						st := p.Snapshot().Stages[0]
						most = max(most, st.Queue.Queued+st.Queue.Delayed)
					}
				}
				require.LessOrEqual(t, most, capacity+workers*batch+3*submitters, "queued, or waiting for a retry")
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
				st := p.Snapshot().Stages[0]
				require.EqualValues(t, commands, st.Counts.OK)
				require.EqualValues(t, 2*commands, st.Counts.Retries)
			})
		})
	}
}

// Commands that fail again and again hold all slots of the stage, but at each retry they queue behind the submitters that wait for a
// slot.
func TestRetriesDoNotStarveNewCommands(t *testing.T) {
	for name, p := range map[string]stage.RetryPolicy{
		"without a backoff": {Attempts: 1 << 20}, "with a short one": {Attempts: 1 << 20, Backoff: time.Nanosecond, Max: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var calls int
				s := stage.New("s", fn(func(_ context.Context, n int) behaviour.Outcome {
					if n < 0 {
						return behaviour.Error(errNo)
					}
					calls++
					return behaviour.OK(n)
				}), stage.Workers(1, 1), stage.Batch(1), stage.Capacity(16), stage.Retry(p))
				pipe := bubble(t, s)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				errs := make(chan error)
				for i := range 400 {
					go func() {
						if i%2 == 0 {
							errs <- s.Submit(ctx, -1-i)
							return
						}
						_, err := stage.Call[int](ctx, s, i)
						errs <- err
					}()
				}
				for range 400 {
					require.NoError(t, <-errs)
				}
				require.Equal(t, 200, calls)
				cancelled, stop := context.WithCancel(t.Context())
				stop()
				require.Error(t, pipe.Stop(cancelled))
				atRest(t, pipe)
			})
		})
	}
}

func TestARetryQueuesBehindWaitingSubmitters(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var order []string
		begun, goOn := make(chan struct{}, 9), make(chan struct{})
		s := stage.New("s", fn(func(_ context.Context, name string) behaviour.Outcome {
			order = append(order, name)
			if name == "x" {
				begun <- struct{}{}
				<-goOn
				return behaviour.Error(errNo)
			}
			return behaviour.OK(name)
		}), stage.Workers(1, 1), stage.Capacity(1), stage.Batch(1), stage.Retry(stage.RetryPolicy{Attempts: 2}))
		p := bubble(t, s)
		require.NoError(t, s.Submit(t.Context(), "x"))
		<-begun
		for _, name := range []string{"a", "b", "c"} {
			go func() { _ = s.Submit(t.Context(), name) }()
			synctest.Wait()
		}
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"x", "a", "b", "c", "x"}, order)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestARetryWithoutABackoffWaitsForTheDefault(t *testing.T) {
	for name, test := range map[string]struct {
		policy stage.RetryPolicy
		want   []time.Duration
	}{
		"none":             {stage.RetryPolicy{Attempts: 7}, []time.Duration{0, 1, 3, 7, 15, 25, 35}},
		"a longest of 2ms": {stage.RetryPolicy{Attempts: 4, Max: 2 * time.Millisecond}, []time.Duration{0, 1, 3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var at []time.Duration
				begin := time.Now()
				s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
					at = append(at, time.Since(begin)/time.Millisecond)
					return behaviour.Error(errNo)
				}), stage.Retry(test.policy))
				p := bubble(t, s)
				_, err := stage.Call[int](t.Context(), s, 1)
				require.ErrorIs(t, err, errNo)
				require.Equal(t, test.want, at)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// A command that waits for its retry has a slot or has given it up. A stop, hard or soft, finds all of them.
func TestRetriesEndWithThePipeline(t *testing.T) {
	for name, hard := range map[string]bool{"drained": false, "stopped hard": true} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.New("s", fn(failing(3)), stage.Workers(1, 1), stage.Capacity(4),
					stage.Retry(stage.RetryPolicy{Attempts: 4, Backoff: time.Second, Max: time.Second}))
				p := bubble(t, s)
				tickets := make(chan *stage.Ticket, 40)
				for i := range 40 {
					go func() {
						if ticket, err := s.Ask(t.Context(), &tried{id: i}); err == nil {
							tickets <- ticket
						}
					}()
				}
				time.Sleep(2500 * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if hard {
					cancel()
				}
				require.Equal(t, hard, p.Stop(ctx) != nil)
				atRest(t, p)
				synctest.Wait()
				require.Greater(t, len(tickets), 4)
				for range len(tickets) {
					_, err := (<-tickets).Wait(soon(t))
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// Commands that fail repeatedly at a stage do not starve the stage whose own workers feed it.
func TestRetriesDoNotStarveTheStageBefore(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		next := stage.New("next", fn(func(_ context.Context, n int) behaviour.Outcome {
			if n < 0 {
				return behaviour.Error(errNo)
			}
			return behaviour.OK(n)
		}), stage.Workers(1, 1), stage.Capacity(4), stage.Retry(stage.RetryPolicy{Attempts: 1 << 20, Max: time.Millisecond}))
		first := stage.New("first", fn(func(_ context.Context, n int) behaviour.Outcome {
			return behaviour.Forward(next, n)
		}), stage.Workers(1, 1))
		p := bubble(t, pipeline.Subgraph(first, next))
		for i := range 20 {
			require.NoError(t, first.Submit(t.Context(), -1-i))
		}
		for i := range 20 {
			got, err := stage.Call[int](soon(t), first, i)
			require.NoError(t, err)
			require.Equal(t, i, got)
		}
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		require.Error(t, p.Stop(cancelled))
		atRest(t, p)
	})
}
