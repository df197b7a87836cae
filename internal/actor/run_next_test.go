package actor

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	proto "github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// goroutine returns an identifier of the calling goroutine, which is unique among running goroutines.
func goroutine() string {
	buf := make([]byte, 64)
	return string(buf[:runtime.Stack(buf, false)][:len("goroutine 1234567")])
}

// link is an actor that calls a function for each turn, and whose feed has a number of turns.
type link struct {
	box  *Mailbox
	pid  *PID
	left atomic.Int64
	turn func()
	told func(string)
	last func()
}

func (l *link) Ready() bool { return l.left.Load() > 0 }
func (l *link) Len() int    { return int(l.left.Load()) }

func (l *link) Receive(ctx Context) {
	switch m := ctx.Message().(type) {
	case *Turn:
		l.left.Add(-1)
		l.turn()
	case string:
		l.told(m)
	case *Stopping:
		l.last()
	}
}

// links spawns n links, which do nothing yet.
func links(t *testing.T, s *System, n int) []*link {
	t.Helper()
	all := make([]*link, n)
	for i := range all {
		l := &link{turn: func() {}, last: func() {}}
		l.box = NewMailbox(l)
		pid, err := Spawn(s.Root, Unique(s, "link"), l.box, func() Actor { return l })
		require.NoError(t, err)
		l.pid, all[i] = pid, l
	}
	return all
}

// handOn gives another link a turn, and lets it follow.
func (l *link) handOn(next *link) {
	next.left.Add(1)
	l.box.RunNext(next.box)
}

// wake gives the link a turn.
func (l *link) wake() {
	l.left.Add(1)
	l.box.Wake()
}

// pair makes two links in a bubble; the first, when it has a turn, calls a function and lets the second follow.
func pair(t *testing.T, test func(t *testing.T, a, b *link, h *heard)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		all := links(t, system, 2)
		a, b := all[0], all[1]
		var h heard
		synctest.Wait()
		a.turn = func() {
			h.note("first")
			a.handOn(b)
		}
		b.turn = func() { h.note("second") }
		test(t, a, b, &h)
		require.False(t, a.box.running.Load() || b.box.running.Load())
		require.Nil(t, a.box.follower)
		kill(a.pid)
		kill(b.pid)
	})
}

func TestAFollowerRunsOnTheSameGoroutineWhenTheFirstMailboxIsEmpty(t *testing.T) {
	pair(t, func(t *testing.T, a, b *link, h *heard) {
		var on []string
		a.turn = func() {
			on = append(on, goroutine())
			a.handOn(b)
		}
		b.turn = func() {
			on = append(on, goroutine())
			h.note(a.box.running.Load())
		}
		for range 3 {
			a.wake()
			synctest.Wait()
			require.Equal(t, []any{false}, h.take(), "once, and the first mailbox is empty")
			require.Equal(t, on[0], on[1])
			on = nil
		}
	})
}

func TestAFollowerThatBlocksDelaysNoOtherMailbox(t *testing.T) {
	pair(t, func(t *testing.T, a, b *link, h *heard) {
		stuck := make(chan struct{})
		b.turn = func() { <-stuck }
		a.told = func(m string) { h.note(m) }
		a.wake()
		synctest.Wait()
		h.take()
		a.box.PostUserMessage("more")
		synctest.Wait()
		require.Equal(t, []any{"more"}, h.take(), "the first is free, although the second blocks its goroutine")
		close(stuck)
		synctest.Wait()
	})
}

func TestAFollowerDoesNotWaitForOtherWorkOfTheFirstMailbox(t *testing.T) {
	for what, more := range map[string]func(a *link, wait func()){
		"a message to itself": func(a *link, wait func()) {
			a.told = func(string) { wait() }
			a.box.own.post("more")
		},
		"a turn": func(a *link, wait func()) {
			a.turn = wait
			a.left.Add(1)
		},
		"its own end": func(a *link, wait func()) {
			a.last = wait
			a.box.system.post(&proto.Stop{})
		},
	} {
		t.Run(what, func(t *testing.T) {
			pair(t, func(t *testing.T, a, b *link, h *heard) {
				stuck := make(chan struct{})
				a.turn = func() {
					more(a, func() { <-stuck })
					a.handOn(b)
				}
				a.wake()
				synctest.Wait()
				require.Equal(t, []any{"second"}, h.take())
				close(stuck)
				synctest.Wait()
			})
		})
	}
}

func TestTheLastOfSeveralFollowsAndTheOthersAreWoken(t *testing.T) {
	pair(t, func(t *testing.T, a, b *link, h *heard) {
		c := links(t, system, 1)[0]
		synctest.Wait()
		var first, last string
		c.turn = func() { last = goroutine() }
		a.turn = func() {
			first = goroutine()
			a.handOn(b)
			a.handOn(c)
		}
		a.wake()
		synctest.Wait()
		require.Equal(t, []any{"second"}, h.take())
		require.Equal(t, first, last)
		kill(c.pid)
	})
}

func TestAFollowerIsWokenAlthoughTheFirstHandlerCrashes(t *testing.T) {
	for name, how := range map[string]func(){"Goexit": runtime.Goexit, "panic": func() { panic(errBoom) }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var h heard
				b := links(t, system, 1)[0]
				b.turn = func() { h.note("second") }
				box := NewMailbox(nil)
				var told heard
				mother, _ := familyOf(t, &told, box, func(ctx Context) {
					if ctx.Message() == "go" {
						b.left.Add(1)
						box.RunNext(b.box)
						how()
					}
				})
				box.PostUserMessage("go")
				synctest.Wait()
				require.Equal(t, []any{"second"}, h.take())
				kill(mother)
				kill(b.pid)
			})
		})
	}
}

func TestACrashOfAFollowerAffectsItsOwnActorOnly(t *testing.T) {
	for name, how := range map[string]func(){"Goexit": runtime.Goexit, "panic": func() { panic(errBoom) }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first, second := NewMailbox(nil), NewMailbox(nil)
				var h, firsts, seconds heard
				mother, _ := familyOf(t, &firsts, first, func(ctx Context) {
					if m, ok := ctx.Message().(string); ok {
						h.note(m)
						second.own.post("follow")
						first.RunNext(second)
					}
				})
				other, kid := familyOf(t, &seconds, second, func(ctx Context) {
					if ctx.Message() == "follow" {
						how()
					}
				})
				first.PostUserMessage("one")
				synctest.Wait()
				first.PostUserMessage("two")
				synctest.Wait()
				require.Equal(t, []any{"one", "two"}, h.take(), "it continues")
				require.Empty(t, firsts.take(), "its parent is not notified")
				if failed := seconds.take(); name == "panic" {
					require.Len(t, failed, 2)
					require.Equal(t, errBoom, failed[0].(*Panic).Value)
					require.Equal(t, "gone "+kid.Id, failed[1])
				} else {
					require.Empty(t, failed, "a mailbox survives that")
				}
				kill(mother)
				kill(other)
			})
		})
	}
}

func TestAFollowerThatWasStoppedMeanwhileGetsNothing(t *testing.T) {
	pair(t, func(t *testing.T, a, b *link, h *heard) {
		a.turn = func() {
			a.handOn(b)
			b.box.system.post(&proto.Stop{})
		}
		a.wake()
		synctest.Wait()
		require.Empty(t, h.take())
	})
}

func TestAPaceIsNotifiedOfAFollowerAtOnce(t *testing.T) {
	s := NewSystem(slog.New(slog.DiscardHandler))
	var p paceOfTest
	SetPace(s, &p)
	all := links(t, s, 2)
	a, b := all[0], all[1]
	stepAll := func() {
		for p.step() {
		}
	}
	stepAll()
	a.turn = func() {
		a.handOn(b)
		require.Equal(t, []*Mailbox{b.box}, p.ready)
	}
	a.wake()
	require.True(t, p.step())
	require.True(t, b.Ready(), "it gets a step of its own")
	require.True(t, p.step())
	require.False(t, b.Ready())
	for _, l := range all {
		Stop(s, l.pid)
	}
	stepAll()
}

// paceOfTest steps on one goroutine.
type paceOfTest struct{ ready []*Mailbox }

func (p *paceOfTest) Ready(m *Mailbox) { p.ready = append(p.ready, m) }

func (p *paceOfTest) Apart(string, uint64, func()) {}

func (p *paceOfTest) step() bool {
	if len(p.ready) == 0 {
		return false
	}
	m := p.ready[0]
	p.ready = p.ready[1:]
	m.Step()
	return true
}

// Two links follow each other for ever: their goroutine never ends.
func TestAnEndlessChainGrowsNoStackAndLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	all := links(t, system, 3)
	a, b, other := all[0], all[1], all[2]
	var rounds atomic.Int64
	var over atomic.Bool
	ended := make(chan struct{})
	depths := map[int]bool{}
	step := func(from, to *link) func() {
		return func() {
			depths[runtime.Callers(0, make([]uintptr, 100))] = true
			rounds.Add(1)
			if over.Load() {
				close(ended)
				return
			}
			from.handOn(to)
		}
	}
	a.turn, b.turn = step(a, b), step(b, a)
	heard := make(chan struct{})
	other.told = func(string) { heard <- struct{}{} }
	a.wake()
	for range 20 {
		other.box.PostUserMessage("hello")
		<-heard
	}
	over.Store(true)
	<-ended
	require.Len(t, depths, 1, "after %d rounds", rounds.Load())
	for _, l := range all {
		Stop(system, l.pid)
	}
}

// Commands move from one link to another, which follows, or is woken by others at the same time.
func TestNoTurnIsLostOrConcurrentHoweverMailboxesFollow(t *testing.T) {
	const mailboxes, commands, steps = 5, 8, 2000
	all := links(t, system, mailboxes)
	var left sync.WaitGroup
	left.Add(commands * steps)
	for _, l := range all {
		var busy atomic.Int32
		l.turn = func() {
			if busy.Add(1) != 1 {
				t.Error("two turns at once")
			}
			next := all[rand.IntN(mailboxes)]
			switch next.left.Add(1); rand.IntN(4) {
			case 0:
				next.box.Wake()
			case 1:
				go next.box.Wake()
			default:
				l.box.RunNext(next.box)
			}
			busy.Add(-1)
			left.Done()
		}
	}
	var last atomic.Int64
	last.Store(commands * steps)
	for _, l := range all {
		turn := l.turn
		l.turn = func() {
			if last.Add(-1) < 0 {
				return // the path is long enough
			}
			turn()
		}
	}
	for i := range commands {
		all[i%mailboxes].wake()
	}
	left.Wait()
	for _, l := range all {
		Stop(system, l.pid)
	}
}
