package pipeline_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// together is a batch handler around a handler for single commands.
type together struct{ one behaviour.Func[any] }

func (b together) HandleCommand(context.Context, any) behaviour.Outcome { panic("it is a batcher") }

func (b together) HandleBatch(ctx context.Context, cmds []any) []behaviour.Outcome {
	out := make([]behaviour.Outcome, len(cmds))
	for i, cmd := range cmds {
		out[i] = b.one(ctx, cmd)
	}
	return out
}

// perishing returns stages of each kind whose commands may expire.
func perishing() map[string]func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
	kinds := map[string]func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any]{
		"batcher": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
			return stage.New[any](name, together{f}, opts...)
		},
	}
	maps.Copy(kinds, everyKind)
	return kinds
}

// A worker is busy for a second. Of the commands that wait meanwhile, those that were queued at once have expired; those that were queued
// later have not.
func TestACommandThatWaitsLongerThanTheTTLIsShed(t *testing.T) {
	requireShed(t, func(*testing.T, *pipeline.Pipeline) {}, func(*testing.T, *pipeline.Pipeline) {}, stage.TTL(500*time.Millisecond))
}

// A policy bounds the wait at the start, or while the commands wait already, and besides a TTL.
func TestACommandThatWaitsLongerThanAPolicyAllowsIsShed(t *testing.T) {
	bound := func(t *testing.T, p *pipeline.Pipeline) {
		t.Helper()
		require.NoError(t, p.SetPolicy(once(func(s *controller.Snapshot, d *controller.Decisions) {
			require.Zero(t, s.Stages[0].Sojourn)
			controller.KnobSojourn.Set(d, 0, 500*time.Millisecond, "test")
		})))
		requireNoted(t, p, controller.KnobSojourn, "gate", time.Duration(0), 500*time.Millisecond)
	}
	none := func(*testing.T, *pipeline.Pipeline) {}
	requireShed(t, bound, none)
	requireShed(t, none, bound)
	requireShed(t, bound, none, stage.TTL(time.Hour))
}

// requireShed requires that commands of all kinds of stages are shed that wait for more than half a second. First is called
// before they are submitted, and then while they wait.
func requireShed(t *testing.T, first, then func(*testing.T, *pipeline.Pipeline), opts ...stage.Option) {
	t.Helper()
	for kind, make := range perishing() {
		t.Run(kind, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				g := newGate()
				s := make("gate", g.handle, append(opts, stage.Workers(1, 1), stage.Instances(1))...)
				p := bubble(t, s)
				first(t, p)
				_, err := s.Ask(context.Background(), "held")
				require.NoError(t, err)
				require.Equal(t, "held", <-g.begun)
				old, err := s.Ask(context.Background(), "old")
				require.NoError(t, err)
				require.NoError(t, s.Submit(context.Background(), "old too"))
				then(t, p)
				time.Sleep(600 * time.Millisecond)
				fresh, err := s.Ask(context.Background(), "fresh")
				require.NoError(t, err)
				time.Sleep(400 * time.Millisecond)
				close(g.open)
				<-fresh.Done()
				require.NoError(t, fresh.Err())
				require.ErrorIs(t, old.Err(), stage.ErrExpired)
				require.ErrorContains(t, old.Err(), `stage "gate"`)
				require.Equal(t, "fresh", <-g.begun)
				require.Empty(t, g.begun)
				synctest.Wait()
				end := p.Snapshot()
				require.EqualValues(t, 2, end.Replied)
				require.EqualValues(t, 2, end.Stages[0].Reasons.Shed[reason.Expired])
				list := p.DeadLetters().List(letters.Filter{Reason: reason.Expired, OldestFirst: true})
				require.Len(t, list, 1, "the caller of the other has its error")
				require.Equal(t, "old too", list[0].Command)
				require.EqualValues(t, 1, end.Answered)
				require.NoError(t, p.Stop(context.Background()))
				atRest(t, p)
			})
		})
	}
}

// The TTL counts in each stage, for commands that are forwarded, emitted or submitted, one by one or many at a time, in any order.
func TestEachStageHasATTLOfItsOwnWhereverCommandsComeFrom(t *testing.T) {
	for _, grouped := range []bool{false, true} {
		bubbled(t, func(t *testing.T) {
			const many = 300
			g := newGate()
			last := stage.Func("last", g.handle, stage.Workers(1, 1), stage.Instances(1), stage.TTL(time.Second), stage.Capacity(4*many))
			first := stage.Func("first", func(ctx context.Context, cmd any) behaviour.Outcome {
				if err := behaviour.Emit[any](ctx, last, cmd); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.Forward[any](last, cmd)
			}, stage.Workers(1, 1), stage.TTL(time.Second))
			parts := []pipeline.Part{first, last}
			if grouped {
				parts = append(parts, pipeline.Group("both", 2, 2, first, last))
			}
			p := bubble(t, parts...)
			for range many {
				require.NoError(t, first.Submit(context.Background(), 0))
			}
			<-g.begun
			synctest.Wait()
			time.Sleep(1100 * time.Millisecond)
			close(g.open)
			require.NoError(t, p.Drain(context.Background()))
			end := p.Snapshot()
			require.EqualValues(t, 2*many, end.Replied+end.Shed)
			require.LessOrEqual(t, end.Replied, uint64(256), "no more than were in hand, or came later")
			require.NoError(t, p.Stop(context.Background()))
			atRest(t, p)
		})
	}
}

// The pause before an attempt does not count.
func TestTheTTLRestartsWithEachAttempt(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.Func("s", func(ctx context.Context, _ any) behaviour.Outcome {
			if behaviour.Attempt(ctx) < 3 {
				return behaviour.Error(errNo)
			}
			return behaviour.OK(nil)
		}, stage.TTL(time.Second), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Minute}))
		p := bubble(t, s)
		_, err := stage.Call[any, any](context.Background(), s, 1)
		require.NoError(t, err)
		require.NoError(t, p.Stop(context.Background()))
	})
}

// mail is a command with a TTL of its own.
type mail struct{ by time.Time }

func (m mail) Deadline() time.Time { return m.by }

func TestACommandExpiresAtTheTimeThatItSays(t *testing.T) {
	deadline := func(cmd any) time.Time { return cmd.(mail).by }
	for kind, make := range perishing() {
		t.Run(kind, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				g := newGate()
				s := make("gate", g.handle, stage.Workers(1, 1), stage.Instances(1), stage.ExpiresAt(deadline))
				p := bubble(t, s)
				now := time.Now()
				var tickets []*stage.Ticket
				for _, m := range []mail{{}, {now.Add(time.Second)}, {now.Add(3 * time.Second)}, {}} {
					ticket, err := s.Ask(context.Background(), m)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				<-g.begun
				time.Sleep(2 * time.Second)
				close(g.open)
				require.NoError(t, p.Drain(context.Background()))
				for i, ticket := range tickets {
					if i == 1 {
						require.ErrorIs(t, ticket.Err(), stage.ErrExpired)
					} else {
						require.NoError(t, ticket.Err())
					}
				}
				require.NoError(t, p.Stop(context.Background()))
				atRest(t, p)
			})
		})
	}
}

// The command ends as crashed, and no other is lost.
func TestAnExpiryThatPanicsIsACrashOfItsCommand(t *testing.T) {
	for kind, make := range perishing() {
		t.Run(kind, func(t *testing.T) {
			s := make("s", echo[any], stage.Workers(1, 1), stage.ExpiresAt(func(cmd any) time.Time {
				if cmd == "bad" {
					panic("no time")
				}
				return time.Time{}
			}))
			p := run(t, s)
			var good []*stage.Ticket
			for range 20 {
				ticket, err := s.Ask(context.Background(), "good")
				require.NoError(t, err)
				good = append(good, ticket)
			}
			bad, err := s.Ask(context.Background(), "bad")
			require.NoError(t, err)
			<-bad.Done()
			require.True(t, stage.Crashed(bad.Err()), bad.Err())
			for _, ticket := range good {
				<-ticket.Done()
				require.NoError(t, ticket.Err())
			}
			require.EqualValues(t, 1, p.Snapshot().DeadLettered)
		})
	}
}

func TestAnInvalidTTLIsAFault(t *testing.T) {
	no := func(context.Context, mail) behaviour.Outcome { return behaviour.OK(nil) }
	for want, opts := range map[string][]stage.Option{
		"TTL(-1s): must not be negative":                              {stage.TTL(-time.Second)},
		"TTL(48h0m0s): must be at most 24h0m0s":                       {stage.TTL(48 * time.Hour)},
		"TTL(1s): must be more than Linger":                           {stage.TTL(time.Second), stage.Linger(time.Second)},
		"ExpiresAt: the function is nil":                              {stage.ExpiresAt[mail](nil)},
		"ExpiresAt: takes int, and the stage's commands are pipeline": {stage.ExpiresAt(func(int) time.Time { return time.Time{} })},
	} {
		_, err := pipeline.New("p", stage.Func("s", no, opts...))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n", "one fault")
	}
	for _, fits := range []stage.Option{
		stage.ExpiresAt(mail.Deadline), stage.ExpiresAt(func(any) time.Time { return time.Time{} }),
		stage.ExpiresAt(func(d interface{ Deadline() time.Time }) time.Time { return d.Deadline() }),
	} {
		_, err := pipeline.New("p", stage.Func("s", no, fits))
		require.NoError(t, err)
	}
}
