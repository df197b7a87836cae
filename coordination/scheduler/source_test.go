package scheduler_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

type notebook struct {
	strings.Builder

	logger *slog.Logger
}

func newLog() *notebook {
	l := &notebook{}
	l.logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func TestAChannelIsASourceUntilItIsClosed(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		ch := make(chan int)
		go func() {
			for i := range 3 {
				ch <- i
			}
			close(ch)
		}()
		b.Register(scheduler.Chan(ch), func(_ coroutine.Context, ev any) { b.say(fmt.Sprint(ev)) })
		b.loop()
		assert.Equal(t, "0 1 2", b.said())
	})
}

func TestASourceFasterThanItsHandlersIsHeldBack(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 3}, func(b *bubble) {
		ch := make(chan int)
		sent := 0
		go func() {
			defer close(ch)
			for ; sent < 10; sent++ {
				ch <- sent
			}
		}()
		running, most := 0, 0
		b.Register(scheduler.Chan(ch), func(c coroutine.Context, _ any) {
			running++
			most = max(most, running)
			b.ok(coroutine.Sleep(c, time.Second))
			running--
		})
		synctest.Wait()
		assert.Equal(t, 4, sent, "three that wait, and one that the source is notifying")
		b.untilFalse()
		assert.Equal(t, 4, sent, "three whose handlers have not ended")
		b.loop()
		assert.Equal(t, 10, sent)
		assert.Equal(t, 3, most)
		assert.Equal(t, 4*time.Second, b.now())
	})
}

func TestANextEventFreesASlot(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 1}, func(b *bubble) {
		ch := make(chan int, 10)
		for i := range 10 {
			ch <- i
		}
		close(ch)
		var r *scheduler.Registration
		r = b.Register(scheduler.Chan(ch), func(c coroutine.Context, ev any) {
			for err := error(nil); err == nil; ev, err = r.Next(c) {
				b.say(fmt.Sprint(ev))
			}
		})
		b.loop()
		assert.Equal(t, "0 1 2 3 4 5 6 7 8 9", b.said())
	})
}

func TestAPollerIsNotPolledWhileItsEventsWait(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 2}, func(b *bubble) {
		b.Register(pollFunc(func(time.Duration) (any, bool, error) { return b.now(), true, nil }),
			func(c coroutine.Context, ev any) {
				b.say(fmt.Sprint(ev))
				_ = coroutine.Sleep(c, time.Second)
			})
		for range 20 {
			b.Step(100 * time.Millisecond)
		}
		assert.Equal(t, "0s 0s 1s 1s", b.said()[:11])
	})
}

func TestATimerIsHeldBackAsWell(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 2}, func(b *bubble) {
		b.Register(scheduler.Every(time.Second), func(c coroutine.Context, _ any) {
			b.say(b.now().String())
			_ = coroutine.Sleep(c, 10*time.Second)
			b.Stop()
		})
		b.loop()
		assert.Equal(t, "1s 2s", b.said())
	})
}

func TestSourcesOfHandlersThatWaitForEachOtherAreADeadlock(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 1}, func(b *bubble) {
		notify, _ := b.source(func(c coroutine.Context, _ any) { _ = scheduler.NewSemaphore(0).Acquire(c) })
		notify(1)
		require.ErrorIs(t, b.Loop(), scheduler.ErrDeadlock)
		assert.ErrorContains(t, b.Loop(), "1 of 1 tasks are blocked")
	})
}

func TestAListenerGivenToAClosedSchedulerIsClosed(t *testing.T) {
	s := scheduler.New(scheduler.Config{Error: func(err error) { assert.ErrorIs(t, err, scheduler.ErrClosed) }})
	s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Register(scheduler.Accept(l), nothing)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	assert.Zero(t, s.Snapshot().Sources)
}

func TestASourceThatIsHeldBackMayStillEnd(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 1}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		r := b.Register(scheduler.SourceFunc(func(_ context.Context, notify func(any)) error {
			notify(1)
			time.Sleep(time.Second)
			return nil
		}), func(c coroutine.Context, _ any) { b.ok(sem.Acquire(c)) })
		b.Go(func(c coroutine.Context) {
			b.ok(coroutine.Sleep(c, time.Millisecond)) // the handler has the event
			_, err := r.Next(c)
			require.ErrorIs(t, err, scheduler.ErrEnded)
			sem.Release()
		})
		b.loop()
		assert.Equal(t, time.Second, b.now())
	})
}

func TestAPollerThatIsHeldBackDoesNotEnd(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 1}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		asked := 0
		r := b.Register(pollFunc(func(time.Duration) (any, bool, error) { asked++; return asked, true, nil }),
			func(c coroutine.Context, _ any) { _ = sem.Acquire(c) })
		b.Go(func(c coroutine.Context) {
			b.ok(coroutine.Sleep(c, time.Millisecond))
			_, err := r.Next(c)
			assert.ErrorIs(t, err, coroutine.ErrStopped)
		})
		require.ErrorIs(t, b.Loop(), scheduler.ErrDeadlock)
		assert.Equal(t, 1, asked)
	})
}

func TestLateTicksAreSkipped(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Register(scheduler.Every(time.Second), func(_ coroutine.Context, ev any) {
			b.say(b.now().String())
			assert.Zero(t, time.Since(ev.(time.Time)))
			switch len(b.log) {
			case 2:
				time.Sleep(2500 * time.Millisecond) // past the third and the fourth tick
			case 4:
				b.Stop()
			}
		})
		b.loop()
		assert.Equal(t, "1s 2s 4.5s 5s", b.said())
	})
}

func TestTimersForTheSameTimeKeepTheirOrder(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var want []string
		for i := range 50 {
			name := strconv.Itoa(i)
			want = append(want, name)
			if i%2 == 0 {
				b.Register(scheduler.After(time.Second), func(coroutine.Context, any) { b.say(name) })
				continue
			}
			b.Go(func(c coroutine.Context) {
				b.ok(coroutine.Sleep(c, time.Second))
				b.say(name)
			})
			b.Step(0) // so that the task sleeps
		}
		b.loop()
		assert.Equal(t, want, b.log)
	})
}

func TestTimersWorkWithoutASchedulerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		var at []time.Duration
		note := func(any) { at = append(at, time.Since(begin)) }
		assert.NoError(t, scheduler.Every(time.Second).Observe(ctx, note))
		assert.NoError(t, scheduler.After(time.Second).Observe(t.Context(), note))
		assert.Equal(t, []time.Duration{1e9, 2e9, 3e9, 45e8}, at)
	})
}

func TestAClosedRegistrationHandlesNothingMore(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		notify, r := b.source(func(_ coroutine.Context, ev any) { b.say(fmt.Sprint(ev)) })
		var err error
		notify(1, 2)
		assert.True(t, b.Step(0))
		r.Close()
		r.Close()
		b.Go(func(c coroutine.Context) { _, err = r.Next(c) })
		synctest.Wait()
		notify(3)
		b.untilFalse()
		assert.Equal(t, "1", b.said())
		require.ErrorIs(t, err, scheduler.ErrClosed)
		assert.Zero(t, b.Snapshot().Sources)
	})
}

func TestHandlersThatWaitForTheNextEventAreServedInOrder(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		notify, r := b.source(func(_ coroutine.Context, ev any) { b.say(fmt.Sprint("new:", ev)) })
		for _, name := range []string{"a", "b", "c"} {
			b.Go(func(c coroutine.Context) {
				ev, err := r.Next(c)
				b.say(fmt.Sprint(name, ":", ev, err))
			})
		}
		b.untilFalse()
		notify(1, 2)
		b.untilFalse()
		r.Close()
		b.untilFalse()
		assert.Equal(t, "a:1 <nil> b:2 <nil> c:<nil> scheduler: closed", b.said())
	})
}

func TestCloseWakesHandlersThatWaitForTheNextEvent(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		_, r := b.source(nothing)
		var err error
		b.Go(func(c coroutine.Context) { _, err = r.Next(c) })
		b.untilFalse()
		assert.Equal(t, 1, b.Snapshot().Blocked)
		b.Close()
		require.ErrorIs(t, err, coroutine.ErrStopped)
		assert.Zero(t, b.Snapshot().Blocked)
	})
}

// returns is a source that gets back the events that are not handled.
type returns struct {
	scheduler.SourceFunc

	mu   sync.Mutex
	back []any
}

func (r *returns) Drop(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = append(r.back, event)
}

func TestASourceGetsBackUnhandledEvents(t *testing.T) {
	closings := map[string]func(b *bubble, r *scheduler.Registration){
		"registration": func(_ *bubble, r *scheduler.Registration) { r.Close() },
		"scheduler":    func(b *bubble, _ *scheduler.Registration) { b.Close() },
	}
	for name, closing := range closings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{Backlog: 3}, func(b *bubble) {
				src := &returns{SourceFunc: func(_ context.Context, notify func(any)) error {
					for i := range 6 {
						notify(i)
					}
					return nil
				}}
				handled := 0
				r := b.Register(src, func(coroutine.Context, any) { handled++ })
				synctest.Wait()
				assert.True(t, b.Step(0))
				synctest.Wait()
				closing(b, r)
				b.untilFalse()
				synctest.Wait()
				assert.Equal(t, 1, handled)
				assert.ElementsMatch(t, []any{1, 2, 3, 4, 5}, src.back)
			})
		})
	}
}

func TestAcceptServesConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := scheduler.New(scheduler.Config{})
	var lines []string
	s.Register(scheduler.Accept(l), func(c coroutine.Context, ev any) {
		conn := ev.(net.Conn)
		defer conn.Close()
		line, err := coroutine.Await(c, func(context.Context) (string, error) {
			return bufio.NewReader(conn).ReadString('\n')
		})
		require.NoError(t, err)
		lines = append(lines, line)
		_, _ = io.WriteString(conn, strings.ToUpper(line))
		if len(lines) == 3 {
			s.Stop()
		}
	})
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "hello %d\n", i)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("HELLO %d\n", i), string(answer))
		})
	}
	require.NoError(t, s.Loop())
	clients.Wait()
	s.Close()
	assert.Len(t, lines, 3)
	_, err = l.Accept()
	assert.ErrorIs(t, err, net.ErrClosed, "the source closed the listener")
}

func TestAcceptClosesUnhandledConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := scheduler.New(scheduler.Config{})
	s.Register(scheduler.Accept(l), func(coroutine.Context, any) { t.Error("handled") })
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	s.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection was left open")
}

// listener fails with the given errors before it accepts.
type listener struct {
	net.Listener

	errs   []error
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return nil, net.ErrClosed
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	if err != nil {
		return nil, err
	}
	a, _ := net.Pipe()
	return a, nil
}

func (l *listener) Close() error   { l.closed = true; return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptTriesAgainWhenFilesAreShort(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		l := &listener{errs: []error{syscall.EMFILE, syscall.EMFILE, nil, syscall.EMFILE, nil}}
		b.Register(scheduler.Accept(l), func(_ coroutine.Context, ev any) {
			b.say(b.now().String())
			b.ok(ev.(net.Conn).Close())
		})
		b.loop()
		assert.Equal(t, "15ms 20ms", b.said())
	})
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		l := &listener{errs: []error{io.ErrUnexpectedEOF}}
		b.Register(scheduler.Accept(l), nothing)
		b.loop()
		assert.True(t, l.closed, "the source closes it")
		faults := b.takeFaults()
		require.Len(t, faults, 1)
		assert.EqualError(t, faults[0], "scheduler: Accept on :0: unexpected EOF")
	})
}
