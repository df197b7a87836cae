package nats_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// pair starts a stage in a process of its own, and returns it as another process has it.
func pair[C any](t *testing.T, conn *nats.Conn, makeStage func() *stage.Stage[C], o ...nats.CarrierOption) *stage.Stage[C] {
	t.Helper()
	half(t, conn, "b", makeStage, o...)
	far, _ := half(t, conn, "a", makeStage, o...)
	return far
}

// half starts one of two processes: stage "far" runs in process "b".
func half[C any](
	t *testing.T, conn *nats.Conn, process string, makeStage func() *stage.Stage[C], o ...nats.CarrierOption,
) (*stage.Stage[C], *pipeline.Pipeline) {
	t.Helper()
	return halfOf(t, nats.NewCarrier(conn, "pair", nats.Options[any]{}, o...), process, makeStage)
}

// halfOf is half with a carrier.
func halfOf[C any](
	t *testing.T, carrier *nats.Carrier, process string, makeStage func() *stage.Stage[C],
) (*stage.Stage[C], *pipeline.Pipeline) {
	t.Helper()
	far := makeStage()
	near := stage.Sink("near", func(context.Context, int) error { return nil })
	p, err := pipeline.New("pair", near, far, quiet, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
		pipeline.RunsHere(carrier, process))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		assert.NoError(t, p.Stop(context.Background()))
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	return far, p
}

// call calls until a process answers.
func call[R, C any](t *testing.T, s *stage.Stage[C], cmd C) (got R, err error) {
	t.Helper()
	eventually(t, "a process answers", func() bool {
		got, err = stage.Call[R](t.Context(), s, cmd)
		return !errors.Is(err, stage.ErrNotRunning)
	})
	return got, err
}

func TestACallOfAStageThatNoProcessRunsFailsAtOnce(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	far, _ := half(t, conn, "a", func() *stage.Stage[int] {
		return stage.Func("far", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	})
	_, err := stage.Call[int](t.Context(), far, 1)
	require.ErrorIs(t, err, stage.ErrNotRunning)
	require.ErrorIs(t, err, transport.ErrUnreachable)
	require.EqualError(t, err, `stage "far": call to process "b": no process of that name runs the stage`)
	s, err := conn.Status(t.Context(), "pair_far")
	require.NoError(t, err)
	require.Zero(t, s.Published)
	require.NoError(t, far.Submit(t.Context(), 1), "commands that are sent wait for it")
}

func TestAKeyedStageOfAnotherProcessIsNotCalledAndHasCommandsSentToIt(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	handled := make(chan int, 10)
	far := pair(t, conn, func() *stage.Stage[int] {
		return stage.Keyed("far", func(n int) int { return n }, func(int) behaviour.Behaviour[int] {
			return behaviour.Func[int](func(_ context.Context, n int) behaviour.Outcome {
				handled <- n
				return behaviour.OK(n)
			})
		})
	})
	_, err := stage.Call[int](t.Context(), far, 1)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.ErrorContains(t, err, `stage "far": runs in process "b": it is keyed`)
	require.NoError(t, far.Submit(t.Context(), 2))
	require.Equal(t, 2, <-handled)
	s, err := conn.Status(t.Context(), "pair_far")
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Published)
}

// veiled has a field that JSON does not keep.
type veiled struct{ text string }

// veiledCodec is a codec that keeps it.
type veiledCodec struct{}

func (veiledCodec) Encode(s veiled) (nats.Payload, error) {
	return nats.Payload{Type: "veiled", Version: 1, Data: []byte(s.text)}, nil
}

func (veiledCodec) Decode(p nats.Payload) (veiled, error) { return veiled{string(p.Data)}, nil }

func tell(asked *atomic.Int32) func() *stage.Stage[string] {
	return func() *stage.Stage[string] {
		return stage.Func("far", func(_ context.Context, text string) behaviour.Outcome {
			asked.Add(1)
			return behaviour.OK(veiled{text})
		})
	}
}

func TestAResultThatJSONDoesNotKeepIsRefusedBeforeTheCall(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var asked atomic.Int32
	far := pair(t, conn, tell(&asked))
	_, err := call[veiled](t, far, "x")
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.ErrorContains(t, err, "veiled.text is unexported")
	require.Zero(t, asked.Load())
	_, err = call[string](t, far, "x")
	require.ErrorIs(t, err, stage.ErrElsewhere, "it was called, and its result cannot be sent")
	require.EqualValues(t, 1, asked.Load())
}

func TestAResultMayHaveACodecOfItsOwn(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var asked atomic.Int32
	far := pair(t, conn, tell(&asked), nats.CarryResult[veiled](veiledCodec{}))
	got, err := call[veiled](t, far, "x")
	require.NoError(t, err)
	require.Equal(t, veiled{"x"}, got)
	ticket, err := far.Ask(t.Context(), "y")
	require.NoError(t, err)
	result, err := ticket.Wait(t.Context())
	require.NoError(t, err, "the codec knows the type")
	require.Equal(t, veiled{"y"}, result)
	_, err = stage.Call[error](t.Context(), far, "x")
	var wrong *stage.TypeError
	require.ErrorAs(t, err, &wrong, "it is no error")
}

func TestACodecOfAResultIsChecked(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	for name, o := range map[string][]nats.CarrierOption{
		"without a codec": {nats.CarryResult[veiled](nil)},
		"given twice":     {nats.CarryResult[veiled](veiledCodec{}), nats.CarryResult[veiled](veiledCodec{})},
		"an interface":    {nats.CarryResult[error](nats.JSON[error]{})},
	} {
		near := stage.Sink("near", func(context.Context, int) error { return nil })
		far := stage.Sink("far", func(context.Context, int) error { return nil })
		_, err := pipeline.New("pair", near, far, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
			pipeline.RunsHere(nats.NewCarrier(conn, "pair", nats.Options[any]{}, o...), "a"))
		require.ErrorContains(t, err, name)
	}
}

func TestAResultOfNoKnownTypeCannotBeHad(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	far := pair(t, conn, func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(product{n}) })
	})
	_, err := call[any](t, far, 1)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.ErrorContains(t, err, "use stage.Call[nats_test.product]")
}

func TestACommandOrAResultThatIsTooLargeFailsItsCall(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	far := pair(t, conn, func() *stage.Stage[string] {
		return stage.Func("far", func(_ context.Context, s string) behaviour.Outcome {
			return behaviour.OK(strings.Repeat(s, 2<<20))
		})
	})
	_, err := call[string](t, far, "")
	require.NoError(t, err)
	_, err = stage.Call[string](t.Context(), far, strings.Repeat("x", 2<<20))
	require.ErrorIs(t, err, transport.ErrTooLarge)
	_, err = stage.Call[string](t.Context(), far, "x")
	require.ErrorIs(t, err, transport.ErrTooLarge)
	_, err = stage.Call[string](t.Context(), far, "")
	require.NoError(t, err)
}

func TestTheProcessesThatRunAStageShareItsCalls(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	var served [2]atomic.Int32
	var second *pipeline.Pipeline
	for i := range served {
		_, second = half(t, conn, "b", func() *stage.Stage[int] {
			return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome {
				served[i].Add(1)
				return behaviour.OK(n)
			})
		})
	}
	far, _ := half(t, conn, "a", func() *stage.Stage[int] {
		return stage.Func("far", func(context.Context, int) behaviour.Outcome { return behaviour.OK(0) })
	})
	eventually(t, "both are called", func() bool {
		_, err := stage.Call[int](t.Context(), far, 1)
		require.True(t, err == nil || errors.Is(err, stage.ErrNotRunning), err)
		return served[0].Load() > 0 && served[1].Load() > 0
	})
	require.NoError(t, second.Stop(context.Background()))
	before := served[1].Load()
	for range 200 {
		_, err := stage.Call[int](t.Context(), far, 1)
		require.NoError(t, err, "one that has stopped is not called")
	}
	require.Equal(t, before, served[1].Load())
}

// One process after the other is stopped and another is started, while calls are made. None fails.
func TestNoCallFailsWhileProcessesComeAndGo(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			return behaviour.OK(n)
		})
	}
	far := pair(t, conn, makeStage)
	_, err := call[int](t, far, 1)
	require.NoError(t, err)
	_, old := half(t, conn, "b", makeStage)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var calls atomic.Int32
	for range 8 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				got, err := stage.Call[int](t.Context(), far, n)
				assert.NoError(t, err)
				assert.Equal(t, n, got)
				calls.Add(1)
			}
		})
	}
	for range 5 {
		before := calls.Load()
		eventually(t, "calls are made", func() bool { return calls.Load() > before+50 })
		_, next := half(t, conn, "b", makeStage)
		require.NoError(t, old.Stop(context.Background()))
		old = next
	}
	cancel()
	callers.Wait()
}

func TestACallFailsAtOnceWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	far := pair(t, connect(t, s.ClientURL()), func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	})
	_, err := call[int](t, far, 1)
	require.NoError(t, err)
	port := s.Addr().(*net.TCPAddr).Port
	halt(s)
	eventually(t, "the connection is known to be lost", func() bool {
		_, err := stage.Call[int](t.Context(), far, 1)
		require.Error(t, err)
		o, ok := stage.Overloaded(err)
		return ok && o.Reason == nats.BrokerAway && errors.Is(err, nats.ErrAway) && errors.Is(err, transport.ErrUnreachable)
	})
	serve(t, &server.Options{StoreDir: dir, Port: port})
	eventually(t, "calls are answered again", func() bool {
		_, err := stage.Call[int](t.Context(), far, 1)
		return err == nil
	})
}

// A line that is full holds up the commands that are sent, and no calls that are under way.
func TestACallEndsWhileTheStreamOfItsStageIsFull(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	gate := make(chan none)
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome {
			if n == 0 {
				<-gate
			}
			return behaviour.OK(n)
		}, stage.Workers(1, 1))
	}
	o := nats.Carry("far", nats.Options[int]{MaxMessages: 1, MaxInFlight: 1})
	far := pair(t, conn, makeStage, o)
	_, err := call[int](t, far, 1)
	require.NoError(t, err)
	under := make(chan error, 1)
	go func() {
		_, err := stage.Call[int](t.Context(), far, 0)
		under <- err
	}()
	eventually(t, "the call is under way", func() bool { return far.Snapshot().Queue.Suspended == 1 })
	for range 3 {
		require.NoError(t, far.Submit(t.Context(), 0))
	}
	eventually(t, "commands cannot be sent", func() bool { return far.Snapshot().Queue.InHand > 1 })
	time.Sleep(50 * time.Millisecond)
	gate <- none{}
	require.NoError(t, <-under)
	close(gate)
}

// A process that is started when its stage is called already is called, too.
func TestAProcessThatComesLaterIsCalledToo(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var later atomic.Int32
	far := pair(t, conn, func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	})
	_, err := call[int](t, far, 1)
	require.NoError(t, err)
	half(t, conn, "b", func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { later.Add(1); return behaviour.OK(n) })
	})
	eventually(t, "the later one is called", func() bool {
		_, err := call[int](t, far, 1)
		require.NoError(t, err)
		return later.Load() > 0
	})
}
