package actor

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// system is made once because it is expensive.
var system = NewSystem(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// bubble runs a test in which an endless wait is found at once.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t)
		time.Sleep(time.Minute) // protoactor's throttle of dead letters has to wake up and end
	})
}

// heard records what an actor received, in order.
type heard struct {
	mu  sync.Mutex
	all []any
}

func (h *heard) note(m any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m)
}

func (h *heard) take() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// on is an actor made of a function.
type on func(ctx Context)

func (f on) Receive(ctx Context) { f(ctx) }

// parent is an actor that spawns one child and handles its failures.
type parent struct {
	on
	failed func(child *PID, reason any)
}

func (p *parent) HandleFailure(_ *System, sv Supervisor, child *PID, _ *RestartStatistics, reason, _ any) {
	p.failed(child, reason)
	sv.StopChildren(child)
}

func spawn(t *testing.T, box *Mailbox, f on) *PID {
	t.Helper()
	pid, err := Spawn(system.Root, Unique(system, "actor"), box, func() Actor { return f })
	require.NoError(t, err)
	return pid
}

// kill stops an actor. In a bubble it has ended when Wait returns.
func kill(pid *PID) {
	Stop(system, pid)
	synctest.Wait()
}

func TestANilMessageIsDroppedAndTheMailboxContinues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		box := NewMailbox(nil)
		pid := spawn(t, box, func(ctx Context) {
			if s, ok := ctx.Message().(string); ok {
				h.note(s)
			}
		})
		system.Root.Send(pid, nil)
		system.Root.Send(pid, "a")
		synctest.Wait()
		require.Equal(t, []any{"a"}, h.take())
		require.Zero(t, box.UserMessageCount())
		kill(pid)
	})
}

// invoker receives what a mailbox delivers, without an actor.
type invoker struct {
	heard
	user func(any)
}

func (i *invoker) InvokeSystemMessage(m any) { i.note(m) }
func (i *invoker) InvokeUserMessage(m any) {
	i.note(m)
	if i.user != nil {
		i.user(m)
	}
}
func (i *invoker) EscalateFailure(reason, _ any) { i.note(reason) }

func TestMessagesPostedBeforeTheMailboxIsReadyAreDeliveredAfterSystemMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var i invoker
		box := NewMailbox(nil)
		box.PostUserMessage("a")
		box.PostUserMessage("b")
		box.PostSystemMessage(&proto.Started{})
		box.Start()
		require.Empty(t, i.take(), "there is no invoker yet")
		box.RegisterHandlers(&i, proto.NewDefaultDispatcher(1))
		box.Start()
		synctest.Wait()
		require.Equal(t, []any{&proto.Started{}, "a", "b"}, i.take())
	})
}

func TestSystemMessagesComeFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		var i invoker
		i.user = func(m any) {
			if m == "hold" {
				<-hold
			}
		}
		box := NewMailbox(nil)
		box.RegisterHandlers(&i, proto.NewDefaultDispatcher(1))
		box.PostUserMessage("hold")
		synctest.Wait()
		require.False(t, box.Pressing())
		box.PostUserMessage("a")
		box.PostSystemMessage("system")
		require.True(t, box.Pressing())
		close(hold)
		synctest.Wait()
		require.Equal(t, []any{"hold", "system", "a"}, i.take())
	})
}

func TestASuspendedMailboxHoldsUserMessagesAndHandlesSystemMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var i invoker
		box := NewMailbox(nil)
		box.RegisterHandlers(&i, proto.NewDefaultDispatcher(1))
		box.PostSystemMessage(&proto.SuspendMailbox{})
		box.PostUserMessage("a")
		box.PostSystemMessage("system")
		synctest.Wait()
		require.Equal(t, []any{"system"}, i.take())
		require.Equal(t, 1, box.UserMessageCount())
		box.PostSystemMessage(&proto.ResumeMailbox{})
		synctest.Wait()
		require.Equal(t, []any{"a"}, i.take())
	})
}

func TestOnlyTheEndsOfChildrenAreDeliveredAfterStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var i invoker
		f := &fed{}
		f.ready.Store(true)
		i.user = func(any) { f.ready.Store(false) }
		box := NewMailbox(f)
		box.RegisterHandlers(&i, proto.NewDefaultDispatcher(1))
		box.PostSystemMessage(&proto.Stop{})
		box.PostUserMessage("a")
		box.PostSystemMessage(&proto.Restart{})
		box.PostSystemMessage(&proto.ResumeMailbox{})
		box.PostSystemMessage(&proto.Terminated{})
		box.Wake()
		synctest.Wait()
		require.Equal(t, []any{&proto.Stop{}, &proto.Terminated{}}, i.take())
	})
}

type fed struct {
	ready atomic.Bool
	n     atomic.Int64
}

func (f *fed) Ready() bool { return f.ready.Load() }
func (f *fed) Len() int    { return int(f.n.Load()) }

func TestTurnsComeAfterTheActorsOwnMessagesAndEndWhenTheFeedIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var i invoker
		f := &fed{}
		f.n.Store(7)
		turns := 0
		i.user = func(m any) {
			if _, ok := m.(*Turn); ok {
				if turns++; turns == 3 {
					f.ready.Store(false)
				}
			}
		}
		box := NewMailbox(f)
		box.PostUserMessage("a")
		require.Equal(t, 8, box.UserMessageCount())
		f.ready.Store(true)
		box.RegisterHandlers(&i, proto.NewDefaultDispatcher(1))
		box.Start()
		synctest.Wait()
		require.Equal(t, []any{"a", &Turn{}, &Turn{}, &Turn{}}, i.take())
		turns = 2
		f.ready.Store(true)
		box.Wake()
		synctest.Wait()
		require.Equal(t, []any{&Turn{}}, i.take())
	})
}

func TestAMailboxContinuesAfterAHandlerEndedItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		pid := spawn(t, NewMailbox(nil), func(ctx Context) {
			switch m := ctx.Message().(type) {
			case string:
				h.note(m)
				if m == "exit" {
					runtime.Goexit()
				}
			case *Stopped:
				h.note("stopped")
			}
		})
		for _, m := range []string{"a", "exit", "b", "exit", "exit", "c"} {
			system.Root.Send(pid, m)
		}
		synctest.Wait()
		require.Equal(t, []any{"a", "exit", "b", "exit", "exit", "c"}, h.take())
		kill(pid)
		require.Equal(t, []any{"stopped"}, h.take())
	})
}

// family spawns a parent and its child, and returns their PIDs.
func family(t *testing.T, h *heard, child on) (mother, kid *PID) {
	t.Helper()
	return familyOf(t, h, NewMailbox(nil), child)
}

// familyOf is family with the child's mailbox.
func familyOf(t *testing.T, h *heard, box *Mailbox, child on) (mother, kid *PID) {
	t.Helper()
	p := &parent{failed: func(_ *PID, reason any) { h.note(reason) }}
	p.on = func(ctx Context) {
		switch m := ctx.Message().(type) {
		case *Started:
			kid, _ = Spawn(ctx, Unique(system, "kid"), box, func() Actor { return child })
		case *Terminated:
			h.note("gone " + m.Who.Id)
		case *Stopped:
			h.note("parent stopped")
		case string:
			h.note(m)
		}
	}
	mother, err := Spawn(system.Root, Unique(system, "parent"), NewMailbox(nil), func() Actor { return p })
	require.NoError(t, err)
	synctest.Wait()
	return mother, kid
}

func TestAPanicInReceiveIsTheFailureOfTheActor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h, k heard
		mother, kid := family(t, &h, func(ctx Context) {
			if s, ok := ctx.Message().(string); ok {
				k.note(s)
				panic(errBoom)
			}
		})
		system.Root.Send(kid, "a")
		system.Root.Send(kid, "b")
		synctest.Wait()
		require.Equal(t, []any{"a"}, k.take(), "suspended before the next message")
		failed := h.take()
		require.Len(t, failed, 2)
		reason, ok := failed[0].(*Panic)
		require.True(t, ok, "%T", failed[0])
		require.Equal(t, errBoom, reason.Value)
		require.EqualError(t, reason, "panic: boom")
		require.Contains(t, string(reason.Stack), "TestAPanicInReceiveIsTheFailureOfTheActor", "the stack shows where")
		require.Equal(t, "gone "+kid.Id, failed[1])
		kill(mother)
		require.Equal(t, []any{"parent stopped"}, h.take())
	})
}

func TestFailNotifiesTheParentAndSuspendsTheActor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h, k heard
		mother, kid := family(t, &h, func(ctx Context) {
			if s, ok := ctx.Message().(string); ok {
				k.note(s)
				Fail(ctx, errBoom)
			}
		})
		system.Root.Send(kid, "a")
		system.Root.Send(kid, "b")
		synctest.Wait()
		require.Equal(t, []any{"a"}, k.take())
		require.Equal(t, []any{errBoom, "gone " + kid.Id}, h.take())
		kill(mother)
	})
}

func TestAParentOfAnAbandonedChildCanStopAndTheChildsLateEndAffectsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		free := make(chan struct{})
		ended := make(chan struct{})
		mother, kid := family(t, &h, func(ctx Context) {
			switch ctx.Message().(type) {
			case string:
				<-free
			case *Stopped:
				close(ended)
			}
		})
		system.Root.Send(kid, "stuck")
		synctest.Wait()
		kill(mother)
		require.Empty(t, h.take(), "the parent waits for its child")
		Abandon(system, mother, kid)
		synctest.Wait()
		require.Equal(t, []any{"gone " + kid.Id, "parent stopped"}, h.take())
		_, there := system.ProcessRegistry.GetLocal(kid.Id)
		require.False(t, there)
		close(free)
		synctest.Wait()
		<-ended
		require.Empty(t, h.take())
	})
}

func TestTheLateEndOfAnAbandonedChildReachesALivingParentAndAffectsNoOtherActor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		free := make(chan struct{})
		mother, kid := family(t, &h, func(ctx Context) {
			if _, ok := ctx.Message().(string); ok {
				<-free
			}
		})
		system.Root.Send(kid, "stuck")
		synctest.Wait()
		Abandon(system, mother, kid)
		synctest.Wait()
		require.Equal(t, []any{"gone " + kid.Id}, h.take())
		close(free)
		synctest.Wait()
		system.Root.Send(mother, "hello")
		synctest.Wait()
		require.Equal(t, []any{"hello"}, h.take(), "it was not asked to stop, and continues unnoticed")
		kill(mother)
		require.Equal(t, []any{"parent stopped"}, h.take())
	})
}

func TestConcurrentMessagesAreAllDeliveredInEachSendersOrder(t *testing.T) {
	senders, each := 8, 12_500
	if testing.Short() {
		each = 1000
	}
	type letter struct{ from, n int }
	var got atomic.Int64
	done := make(chan struct{})
	last := make([]int, senders)
	pid := spawn(t, NewMailbox(nil), func(ctx Context) {
		if m, ok := ctx.Message().(letter); ok {
			if m.n != last[m.from]+1 {
				t.Errorf("%d after %d", m.n, last[m.from])
			}
			last[m.from] = m.n
			if got.Add(1) == int64(senders*each) {
				close(done)
			}
		}
	})
	var wg sync.WaitGroup
	for from := range senders {
		wg.Go(func() {
			for n := range each {
				system.Root.Send(pid, letter{from, n + 1})
			}
		})
	}
	wg.Wait()
	<-done
	Stop(system, pid)
}

func TestAPingPongOfSingleMessagesNeverLosesAWakeUp(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	answer := make(chan int)
	pid := spawn(t, NewMailbox(nil), func(ctx Context) {
		if n, ok := ctx.Message().(int); ok {
			answer <- n
			if n%100 == 0 {
				runtime.Goexit()
			}
		}
	})
	for n := range rounds {
		system.Root.Send(pid, n)
		require.Equal(t, n, <-answer)
	}
	Stop(system, pid)
}

func TestAnEndpointPassesAMessageWithItsSender(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		var endpoint *Endpoint
		endpoint, ok := OpenEndpoint(system, Unique(system, "endpoint"), func(message any, sender *PID) {
			h.note(message)
			if sender != nil {
				endpoint.Reply(sender, "re: "+message.(string))
			}
		})
		require.True(t, ok)
		system.Root.Send(endpoint.PID(), "plain")
		require.Equal(t, []any{"plain"}, h.take(), "in the sender's goroutine")
		answer, err := system.Root.RequestFuture(endpoint.PID(), "request", time.Hour).Result()
		require.NoError(t, err)
		require.Equal(t, "re: request", answer)
		system.Root.Send(endpoint.PID(), nil)
		require.Equal(t, []any{"request", nil}, h.take())
		endpoint.Close()
		_, there := system.ProcessRegistry.GetLocal(endpoint.PID().Id)
		require.False(t, there)
		endpoint.Close()
	})
}

func TestAnEndpointsNameMayBeTaken(t *testing.T) {
	name := Unique(system, "endpoint")
	endpoint, ok := OpenEndpoint(system, name, func(any, *PID) {})
	require.True(t, ok)
	_, ok = OpenEndpoint(system, name, func(any, *PID) {})
	require.False(t, ok)
	endpoint.Close()
}

func TestAnEndpointAnswersATouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		endpoint, _ := OpenEndpoint(system, Unique(system, "endpoint"), func(any, *PID) { t.Error("the function must not see it") })
		answer, err := system.Root.RequestFuture(endpoint.PID(), &proto.Touch{}, time.Hour).Result()
		require.NoError(t, err)
		require.Equal(t, endpoint.PID().Id, answer.(*proto.Touched).Who.Id)
		system.Root.Send(endpoint.PID(), &proto.Touch{})
		endpoint.Close()
	})
}

func TestAnEndpointIsNotStoppedByItsSenders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		endpoint, _ := OpenEndpoint(system, Unique(system, "endpoint"), func(m any, _ *PID) { h.note(m) })
		system.Root.Poison(endpoint.PID())
		system.Root.Stop(endpoint.PID())
		system.Root.Send(endpoint.PID(), "still here")
		require.Equal(t, []any{"still here"}, h.take())
		endpoint.Close()
	})
}

func TestAWatcherOfAnEndpointIsNotifiedOfItsEndOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h heard
		endpoint, _ := OpenEndpoint(system, Unique(system, "endpoint"), func(any, *PID) {})
		watcher := spawn(t, NewMailbox(nil), func(ctx Context) {
			switch m := ctx.Message().(type) {
			case string:
				ctx.Watch(endpoint.PID())
				ctx.Watch(endpoint.PID())
			case int:
				ctx.Unwatch(endpoint.PID())
			case *Terminated:
				h.note(m.Who.Id)
			}
		})
		system.Root.Send(watcher, "watch")
		system.Root.Send(watcher, 0)
		system.Root.Send(watcher, "watch")
		synctest.Wait()
		endpoint.Close()
		synctest.Wait()
		require.Equal(t, []any{endpoint.PID().Id}, h.take())
		system.Root.Send(watcher, "watch") // too late: notified at once
		synctest.Wait()
		require.Contains(t, h.take(), endpoint.PID().Id)
		kill(watcher)
	})
}

func TestAWatchDuringTheCloseOfAnEndpointIsAnswered(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 100
	}
	for range rounds {
		endpoint, _ := OpenEndpoint(system, Unique(system, "endpoint"), func(any, *PID) {})
		told := make(chan struct{}, 4)
		watcher := spawn(t, NewMailbox(nil), func(ctx Context) {
			if _, ok := ctx.Message().(*Terminated); ok {
				told <- struct{}{}
			}
		})
		var wg sync.WaitGroup
		wg.Go(endpoint.Close)
		wg.Go(func() { endpoint.SendSystemMessage(endpoint.PID(), &proto.Watch{Watcher: watcher}) })
		wg.Wait()
		<-told
		Stop(system, watcher)
	}
}

func TestOnlyWarningsAndWorseAreLogged(t *testing.T) {
	log := Quiet(slog.New(slog.DiscardHandler)).With("a", 1).WithGroup("g")
	require.False(t, log.Enabled(context.Background(), slog.LevelInfo))
}

func TestAnActorThatCrashesWhileItStopsEndsWithItsChildren(t *testing.T) {
	for name, crash := range map[string]func(){"by a panic": func() { panic(errBoom) }, "by Goexit": runtime.Goexit} {
		for _, stopped := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var h heard
					mother, kid := family(t, &h, func(ctx Context) {
						switch ctx.Message().(type) {
						case *Started:
							_, err := Spawn(ctx, Unique(system, "grandchild"), NewMailbox(nil), func() Actor {
								return on(func(ctx Context) {
									if _, ok := ctx.Message().(*Stopped); ok {
										h.note("grandchild is gone")
									}
								})
							})
							require.NoError(t, err)
						case *Stopping:
							if !stopped {
								crash()
							}
						case *Stopped:
							if stopped {
								crash()
							}
						}
					})
					kill(kid)
					all := h.take()
					require.Len(t, all, 3, "the failure, and both ends")
					require.Contains(t, all, "grandchild is gone")
					require.Equal(t, "gone "+kid.Id, all[2])
					kill(mother)
					require.Equal(t, []any{"parent stopped"}, h.take())
				})
			})
		}
	}
}
