package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// teller is a process of pipeline "bank": stage "enter" is keyed by account, and runs in process "back".
type teller struct {
	*pipeline.Pipeline

	enter *stage.Stage[step]
	inlet *nats.Inlet[any]
	conn  *nats.Conn
}

var bankOptions = nats.Options[any]{Partitions: 8, AckWait: 3 * time.Second, Retry: stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond}}

// openTeller starts a process of the bank. Handle is what the handlers do.
func openTeller(conn *nats.Conn, process string, o nats.Options[any], handle func(c coroutine.Context, s step) behaviour.Outcome) (*teller, error) {
	near := stage.Sink("near", func(context.Context, int) error { return nil })
	enter := stage.Keyed("enter", func(s step) string { return s.Account }, func(string) behaviour.Coroutine[step] {
		return behaviour.Coroutine[step](handle)
	})
	p, err := pipeline.New("bank", quiet, near, enter, pipeline.Map("front", "near"), pipeline.Map("back", "enter"),
		pipeline.Place(nats.NewCarrier(conn, "bank", o), process))
	if err != nil {
		return nil, err
	}
	return &teller{Pipeline: p, enter: enter, conn: conn}, p.Start(context.Background())
}

func startTeller(t *testing.T, conn *nats.Conn, process string, handle func(c coroutine.Context, s step) behaviour.Outcome) *teller {
	t.Helper()
	b, err := openTeller(conn, process, bankOptions, handle)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = b.Stop(context.Background())
		assert.True(t, b.Snapshot().Balanced(), b.Snapshot().Law())
	})
	return b
}

// call calls until a process runs the stage.
func (b *teller) call(t *testing.T, s step) (got int, err error) {
	t.Helper()
	return call[int](t, b.enter, s)
}

// counts returns those of the stage's inlet, of the last pipeline that has opened it with the connection.
func (b *teller) counts() (all nats.Counts) {
	for _, i := range b.conn.Inlets() {
		if i.Name == "bank_enter" {
			all.Acknowledged += i.Counts.Acknowledged
			all.Expired += i.Counts.Expired
			all.DeadLettered += i.Counts.DeadLettered
			all.GivenBack += i.Counts.GivenBack
		}
	}
	return all
}

// empty requires that nothing is left in the stream, and that there are no letters.
func (b *teller) empty(t *testing.T) (s nats.Status) {
	t.Helper()
	eventually(t, "nothing is left", func() (ok bool) {
		var err error
		s, err = b.conn.Status(t.Context(), "bank_enter")
		return assert.NoError(t, err) && s.Pending == 0
	})
	require.Zero(t, s.Buried)
	return s
}

// answersN handles a step well.
func answersN(_ coroutine.Context, s step) behaviour.Outcome { return behaviour.OK(s.N) }

// unwanted fails a test if it handles anything.
func unwanted(t *testing.T) func(coroutine.Context, step) behaviour.Outcome {
	return func(_ coroutine.Context, s step) behaviour.Outcome {
		assert.Fail(t, "it is handled", s)
		return behaviour.OK(0)
	}
}

// Calls and commands that are sent have one order for each key, and processes come and go meanwhile, softly and hard.
func TestCallsKeepTheOrderOfTheirKeyWhileProcessesComeAndGo(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	b := newBook()
	handle := func(name string) func(coroutine.Context, step) behaviour.Outcome {
		return func(c coroutine.Context, s step) behaviour.Outcome {
			b.enter(name, s)
			defer b.leave(s)
			if s.N%7 == 0 {
				_ = coroutine.Sleep(c, time.Millisecond)
			}
			return behaviour.OK(s.N)
		}
	}
	front := startTeller(t, conn, "front", nil)
	old := startTeller(t, conn, "back", handle("first"))
	_, err := front.call(t, step{"account 0", 1})
	require.NoError(t, err)
	const accounts, each = 12, 60
	var callers sync.WaitGroup
	for a := range accounts {
		callers.Go(func() {
			for n := 1; n <= each; n++ {
				s := step{fmt.Sprint("account ", a), n}
				switch {
				case a == 0 && n == 1: // above
				case (n*(a+3)/2)%3 == 0:
					assert.NoError(t, front.enter.Submit(t.Context(), s))
				case (n+a)%5 == 0: // the next ones do not wait for it
					_, err := front.enter.Ask(context.WithoutCancel(t.Context()), s)
					assert.NoError(t, err)
				default:
					got, err := stage.Call[int](t.Context(), front.enter, s)
					assert.NoError(t, err)
					assert.Equal(t, n, got)
				}
			}
		})
	}
	for i, soft := range []bool{true, false, true} {
		at := (i + 1) * accounts * each / 6
		require.Eventually(t, func() bool { return b.handled() >= at }, 2*time.Minute, time.Millisecond)
		next := startTeller(t, conn, "back", handle(fmt.Sprint("next ", i)))
		eventually(t, "both answer", func() bool { return answering(t, conn) == 2 }) // without one, calls are refused
		ctx, cancel := context.WithCancel(t.Context())
		if !soft {
			cancel()
		}
		_ = old.Stop(ctx)
		cancel()
		old = next
	}
	callers.Wait()
	eventually(t, "all are handled", func() bool { return b.handled() >= accounts*each }) // the last ones may not be in the stream yet
	front.empty(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.faults)
	assert.Equal(t, accounts*each, b.distinct)
}

// answering returns how many processes answer the question whether they run the stage.
func answering(t *testing.T, conn *nats.Conn) (n int) {
	t.Helper()
	nc := conn.JetStream().Conn()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	defer func() { _ = answers.Unsubscribe() }()
	require.NoError(t, nc.PublishRequest("golda.calls.bank_enter.ask", inbox, nil))
	for {
		m, err := answers.NextMsg(100 * time.Millisecond)
		if err != nil || m.Header.Get("Status") != "" { // of the server: there is none
			return n
		}
		n++
	}
}

func TestACommandAndACallOfOneSubmitterKeepTheirOrder(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var mu sync.Mutex
	var order []int
	startTeller(t, conn, "back", func(_ coroutine.Context, s step) behaviour.Outcome {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s.N)
		if s.N > 0 {
			return behaviour.OK(nil)
		}
		return behaviour.OK(s.N)
	})
	front := startTeller(t, conn, "front", nil)
	_, err := front.call(t, step{"a", 0})
	require.NoError(t, err)
	var tickets []*stage.Ticket
	const n = 400
	for i := 1; i < n; i++ {
		if i%3 > 0 {
			ticket, err := front.enter.Ask(context.Background(), step{"a", i})
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		} else {
			require.NoError(t, front.enter.Submit(t.Context(), step{"a", i}))
		}
	}
	for _, ticket := range tickets {
		_, err := ticket.Wait(t.Context())
		require.NoError(t, err)
	}
	eventually(t, "the last command is handled", func() bool { // it may not be in the stream yet
		mu.Lock()
		defer mu.Unlock()
		return len(order) >= n
	})
	front.empty(t)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, order, n)
	require.IsIncreasing(t, order)
}

// behindGate starts both processes, and has the partition of account "a" wait until the function is called.
func behindGate(t *testing.T) (front, back *teller, open func(), handled *atomic.Int32) {
	t.Helper()
	conn := embed(t, t.TempDir(), nats.Store{})
	gate, inside := make(chan none), make(chan none, 1)
	handled = new(atomic.Int32)
	back = startTeller(t, conn, "back", func(c coroutine.Context, s step) behaviour.Outcome {
		if s.N < 0 {
			inside <- none{}
			if _, err := coroutine.Await(c, func(context.Context) (none, error) { <-gate; return none{}, nil }); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(nil)
		}
		handled.Add(1)
		return behaviour.OK(s.N)
	})
	front = startTeller(t, conn, "front", nil)
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	_, err := front.call(t, step{"a", 0})
	require.NoError(t, err)
	handled.Store(0)
	require.NoError(t, front.enter.Submit(t.Context(), step{"a", -1}))
	<-inside
	return front, back, open, handled
}

func TestACallWhoseCallerHasGivenUpWhileItWaitedIsNotHandled(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": context.WithCancel,
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second) // in which the call is published
		},
	} {
		t.Run(name, func(t *testing.T) {
			front, _, open, handled := behindGate(t)
			ctx, cancel := ctx(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := stage.Call[int](ctx, front.enter, step{"a", 1})
				ended <- err
			}()
			eventually(t, "the call is in the stream", func() bool {
				s, err := front.conn.Status(t.Context(), "bank_enter")
				return assert.NoError(t, err) && s.Pending == 2
			})
			want := context.DeadlineExceeded
			if name == "canceled" {
				cancel()
				want = context.Canceled
			}
			require.ErrorIs(t, <-ended, want)
			cancel()
			open()
			front.empty(t)
			require.Zero(t, handled.Load())
			require.EqualValues(t, 1, front.counts().Expired)
		})
	}
}

func TestAStopGivesBackTheCallsThatHaveNotBegun(t *testing.T) {
	front, back, open, handled := behindGate(t)
	ended := make(chan error, 1)
	go func() {
		got, err := stage.Call[int](t.Context(), front.enter, step{"a", 1})
		if err == nil && got != 1 {
			err = fmt.Errorf("got %d", got)
		}
		ended <- err
	}()
	eventually(t, "the call is in the stream", func() bool {
		s, err := front.conn.Status(t.Context(), "bank_enter")
		return assert.NoError(t, err) && s.Pending == 2
	})
	stopped := make(chan error, 1)
	go func() { stopped <- back.Stop(context.Background()) }()
	time.Sleep(50 * time.Millisecond)
	open()
	require.NoError(t, <-stopped)
	require.Empty(t, ended)
	startTeller(t, front.conn, "back", answersN)
	require.NoError(t, <-ended)
	require.Zero(t, handled.Load())
	front.empty(t)
}

func TestTheEndOfTheCallersPipelineEndsItsCalls(t *testing.T) {
	front, _, open, handled := behindGate(t)
	ended := make(chan error, 1)
	go func() {
		_, err := stage.Call[int](context.Background(), front.enter, step{"a", 1})
		ended <- err
	}()
	eventually(t, "the call is under way", func() bool { return front.enter.Snapshot().Suspended == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, front.Stop(ctx))
	require.Error(t, <-ended)
	open()
	front.empty(t)
	require.Zero(t, handled.Load())
}

func TestACallThatFailsIsNotTriedAgainAndLeavesNoLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var tries atomic.Int32
	startTeller(t, conn, "back", func(_ coroutine.Context, s step) behaviour.Outcome {
		tries.Add(1)
		if s.N == 2 {
			panic("oh no")
		}
		return behaviour.Error(errBroken)
	})
	front := startTeller(t, conn, "front", nil)
	_, err := front.call(t, step{"a", 1})
	require.ErrorIs(t, err, errBroken)
	_, err = front.call(t, step{"a", 2})
	require.True(t, stage.Crashed(err), err)
	front.empty(t)
	require.EqualValues(t, 2, tries.Load())
}

func TestACallIsRefusedByAFullStreamAtOnce(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	o := bankOptions
	o.MaxMessages = 2
	gate := make(chan none)
	wait := func(c coroutine.Context, s step) behaviour.Outcome {
		if s.N < 0 {
			if _, err := coroutine.Await(c, func(context.Context) (none, error) { <-gate; return none{}, nil }); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(s.N)
	}
	var both []*teller
	for _, process := range []string{"back", "front"} {
		b, err := openTeller(conn, process, o, wait)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, b.Stop(context.Background())) })
		both = append(both, b)
	}
	front := both[1]
	_, err := front.call(t, step{"a", 0})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, front.enter.Submit(t.Context(), step{"a", -1}))
	}
	eventually(t, "the stream is full", func() bool {
		s, err := conn.Status(t.Context(), "bank_enter")
		return assert.NoError(t, err) && s.Pending == 2
	})
	_, err = stage.Call[int](t.Context(), front.enter, step{"a", 1})
	require.ErrorIs(t, err, nats.ErrFull)
	o2, ok := stage.Overloaded(err)
	require.True(t, ok)
	require.Equal(t, nats.InletFull, o2.Reason)
	close(gate)
	eventually(t, "it is called again", func() bool {
		_, err := stage.Call[int](t.Context(), front.enter, step{"a", 1})
		return err == nil
	})
}

// The stream loses a call: by hand, or since a server had it in memory only.
func TestACallThatTheStreamHasLostFails(t *testing.T) {
	t.Parallel()
	front, _, open, _ := behindGate(t)
	ended := make(chan error, 1)
	go func() {
		_, err := stage.Call[int](context.Background(), front.enter, step{"a", 1})
		ended <- err
	}()
	eventually(t, "the call is in the stream", func() bool {
		s, err := front.conn.Status(t.Context(), "bank_enter")
		return assert.NoError(t, err) && s.Pending == 2
	})
	stream, err := front.conn.JetStream().Stream(t.Context(), "GOLDA_bank_enter")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	require.ErrorIs(t, <-ended, transport.ErrUnreachable)
	open()
}

func TestACallOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	gate, inside := make(chan none), make(chan none, 10)
	handle := func(c coroutine.Context, s step) behaviour.Outcome {
		if s.N == 1 {
			inside <- none{}
			if _, err := coroutine.Await(c, func(context.Context) (none, error) { <-gate; return none{}, nil }); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(s.N)
	}
	startTeller(t, connect(t, s.ClientURL()), "back", handle)
	front := startTeller(t, connect(t, s.ClientURL()), "front", nil)
	_, err := front.call(t, step{"a", 0})
	require.NoError(t, err)
	type end struct {
		got int
		err error
	}
	ends := make(chan end, 2)
	for n := range 2 { // one is under way, and one waits behind it
		go func() {
			got, err := stage.Call[int](context.Background(), front.enter, step{"a", n + 1})
			ends <- end{got, err}
		}()
		if n == 0 {
			<-inside
		} else {
			eventually(t, "the call is in the stream", func() bool {
				s, err := front.conn.Status(t.Context(), "bank_enter")
				return assert.NoError(t, err) && s.Pending == 2
			})
		}
	}
	port := s.Addr().(*net.TCPAddr).Port
	halt(s)
	eventually(t, "calls are refused", func() bool {
		_, err := stage.Call[int](t.Context(), front.enter, step{"b", 0})
		return errors.Is(err, nats.ErrAway)
	})
	serve(t, &server.Options{StoreDir: dir, Port: port})
	eventually(t, "it is back", func() bool {
		_, err := stage.Call[int](t.Context(), front.enter, step{"b", 0})
		return err == nil
	})
	close(gate)
	got := map[int]bool{}
	for range 2 {
		e := <-ends
		require.NoError(t, e.err)
		got[e.got] = true
	}
	require.Len(t, got, 2)
	front.empty(t)
}
