package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
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
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// asNode, in the environment, makes this program a node of that name, at the server of the URL that follows. If member is there too, the node
// has a synchronizer for the process A of that node. If quick is there, its heartbeat is short.
const (
	asNode = "GOLDA_TEST_NATS_NODE"
	member = "GOLDA_TEST_NATS_MEMBER"
	quick  = "GOLDA_TEST_NATS_QUICK"
)

type none = struct{}

// beats returns the heartbeat of the nodes of these tests. It is short in tests in which one of them stands still.
func beats() nats.TransportConfig {
	if os.Getenv(quick) != "" {
		return nats.TransportConfig{Heartbeat: 20 * time.Millisecond}
	}
	return nats.TransportConfig{Heartbeat: 300 * time.Millisecond}
}

// echoed is the answer to a request: whose it is, and which of the requests of its program.
type echoed struct {
	Request string
	Served  int64
}

// runNode runs a node with a stage and some functions, until its standard input is closed.
func runNode(spec string) error {
	name, url, _ := strings.Cut(spec, " ")
	ctx := context.Background()
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	tr, err := nats.NewTransport(conn, name, beats())
	if err != nil {
		return err
	}
	n, err := rpc.NewNode(rpc.Config{Transport: tr})
	if err != nil {
		return err
	}
	var served atomic.Int64
	echo := stage.Func("echo", func(_ context.Context, request string) behaviour.Outcome {
		return behaviour.OK(echoed{request, served.Add(1)})
	})
	p, err := pipeline.New("p", echo, quiet)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	if _, err = n.Spawn(ctx, "B", func(p *rpc.Process) error {
		rpc.Stage[echoed](p, "echo", echo)
		rpc.Func(p, "bar", nodetest.Stayed)
		rpc.Func(p, "sleep", func(c coroutine.Context, d time.Duration) (none, error) { return none{}, coroutine.Sleep(c, d) })
		rpc.Func(p, "use", func(c coroutine.Context, inside rpc.Ref[none, none]) (none, error) {
			if _, err := inside.Call(c, none{}); err != nil {
				return none{}, err
			}
			return none{}, coroutine.Sleep(c, time.Hour)
		})
		return nil
	}); err != nil {
		return err
	}
	if of := os.Getenv(member); of != "" {
		if _, err := n.Synchronize(ctx, "S", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, synchronizer.Event{Of: n.Remote(of, "A"), Method: "use"})
		}); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, n.Name())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(n.Close(), p.Stop(ctx), conn.Close(ctx))
}

// startNode starts a process of the operating system that is a node.
func startNode(t *testing.T, name, url string, env ...string) *exec.Cmd {
	t.Helper()
	cmd, node := nodetest.Start(t, append(env, asNode+"="+name+" "+url)...)
	require.Equal(t, name, node)
	return cmd
}

// nodeAt returns a node of this program.
func nodeAt(t testing.TB, url, name string) *rpc.Node {
	t.Helper()
	tr, err := nats.NewTransport(connect(t, url), name, beats())
	require.NoError(t, err)
	n, err := rpc.NewNode(rpc.Config{Transport: tr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func blocking(t testing.TB) coroutine.Context { return coroutine.Blocking(t.Context()) }

// One program is killed. The calls of its node fail soon, and no others do.
func TestCallsOfANodeThatIsKilledFailSoon(t *testing.T) {
	url := serve(t, &server.Options{}).ClientURL()
	n := nodeAt(t, url, "a")
	cmd := startNode(t, "b", url)
	startNode(t, "c", url)
	sleep := rpc.At[time.Duration, none](n.Remote("b", "B"), "sleep")
	other := rpc.At[time.Duration, none](n.Remote("c", "B"), "sleep")
	lost := make(chan error, 1)
	n.Remote("b", "").Watch(func(reason error) { lost <- reason })
	_, err := sleep.Call(blocking(t), 0)
	require.NoError(t, err)
	call := sleep.Future(t.Context(), time.Hour)
	unharmed := other.Future(t.Context(), 2*time.Second)
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	_, err = call.Wait(blocking(t))
	took := time.Since(killed)
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	require.ErrorIs(t, <-lost, rpc.ErrUnreachable)
	t.Logf("the call failed %v after the kill; a heartbeat is %v: %v", took, beats().Heartbeat, err)
	begin := time.Now()
	_, err = sleep.Call(blocking(t), 0)
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	t.Logf("a later call failed after %v: %v", time.Since(begin), err)
	_, err = unharmed.Wait(blocking(t))
	require.NoError(t, err)
	startNode(t, "b", url)
	_, err = sleep.Call(blocking(t), 0)
	require.NoError(t, err, "another program has its place")
}

// A program that stands still is taken for dead. That is wrong, and harmless.
func TestANodeThatStoodStillIsCalledAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	t.Setenv(quick, "1")
	url := serve(t, &server.Options{}).ClientURL()
	n := nodeAt(t, url, "a")
	cmd := startNode(t, "b", url)
	sleep := rpc.At[time.Duration, none](n.Remote("b", "B"), "sleep")
	_, err := sleep.Call(blocking(t), 0)
	require.NoError(t, err)
	call := sleep.Future(t.Context(), time.Hour)
	still := time.Now()
	signal(t, cmd, "STOP")
	_, err = call.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	t.Logf("the call failed %v after the program stood still; a heartbeat is %v: %v", time.Since(still), beats().Heartbeat, err)
	_, err = sleep.Call(blocking(t), 0)
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	signal(t, cmd, "CONT")
	eventually(t, "it is called again", func() bool {
		_, err := sleep.Call(blocking(t), 0)
		return err == nil
	})
}

func signal(t *testing.T, cmd *exec.Cmd, name string) {
	t.Helper()
	require.NoError(t, exec.CommandContext(t.Context(), "kill", "-"+name, strconv.Itoa(cmd.Process.Pid)).Run())
}

// The server restarts while two programs call a stage of a third one. Each call has its own answer, or fails.
func TestEachCallHasItsOwnAnswerWhileTheServerRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	url := s.ClientURL()
	port := s.Addr().(*net.TCPAddr).Port
	startNode(t, "b", url)
	var ended sync.Map // the numbers by which the stage has served, of the calls that were answered
	var failed, answered atomic.Int64
	stop := make(chan none)
	var callers sync.WaitGroup
	for _, name := range []string{"a", "c"} {
		echo := rpc.At[string, echoed](nodeAt(t, url, name).Remote("b", "B"), "echo")
		for k := range 8 {
			callers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					request := fmt.Sprint(name, k, i)
					got, err := echo.Call(blocking(t), request)
					if err != nil {
						assert.ErrorIs(t, err, rpc.ErrUnreachable)
						failed.Add(1)
						time.Sleep(time.Millisecond)
						continue
					}
					answered.Add(1)
					assert.Equal(t, request, got.Request, "it is not the answer of another call")
					_, twice := ended.LoadOrStore(got.Served, request)
					assert.False(t, twice, "no answer comes twice")
				}
			})
		}
	}
	for range 3 {
		before := answered.Load()
		eventually(t, "calls are answered", func() bool { return answered.Load() > before+1000 })
		halt(s)
		was := failed.Load()
		eventually(t, "calls fail", func() bool { return failed.Load() > was+10 })
		s = serve(t, &server.Options{StoreDir: dir, Port: port})
	}
	before := answered.Load()
	eventually(t, "calls are answered again", func() bool { return answered.Load() > before+1000 })
	close(stop)
	callers.Wait()
	t.Logf("%d calls were answered, %d failed", answered.Load(), failed.Load())
}

// TestS002_5_DistributedMonitor is figure 15: foo of A and bar of B are functions of one monitor, and B is another process of the operating system, which
// dies in the end.
func TestS002_5_DistributedMonitor(t *testing.T) {
	url := serve(t, &server.Options{}).ClientURL()
	n := nodeAt(t, url, "a")
	lock, err := monitor.New(t.Context(), n, "lock")
	require.NoError(t, err)
	cmd := startNode(t, "b", url)
	bar := rpc.At[nodetest.Visit, nodetest.Stay](n.Remote("b", "B"), "bar")
	inside := make(chan uint64, 1)
	var tell rpc.Ref[uint64, none]
	a, err := n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", nodetest.Stayed)
		tell = rpc.Func(p, "", func(_ coroutine.Context, token uint64) (none, error) {
			inside <- token
			return none{}, nil
		})
		return nil
	})
	require.NoError(t, err)
	foo := rpc.At[nodetest.Visit, nodetest.Stay](a, "foo")
	var wg sync.WaitGroup
	stays := make([]nodetest.Stay, 100)
	for i := range stays {
		f := foo
		if i%2 == 1 {
			f = bar
		}
		wg.Go(func() {
			var err error
			stays[i], err = f.Call(blocking(t), nodetest.Visit{Lock: lock, For: time.Millisecond})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	slices.SortFunc(stays, func(a, b nodetest.Stay) int { return a.From.Compare(b.From) })
	for i, s := range stays[1:] {
		assert.False(t, s.From.Before(stays[i].To), "visit %d begins %v before the end of the one before it", i+1, stays[i].To.Sub(s.From))
		assert.Greater(t, s.Token, stays[i].Token)
	}

	holder := bar.Future(t.Context(), nodetest.Visit{Lock: lock, For: time.Hour, Inside: tell})
	first := <-inside
	waiting := foo.Future(t.Context(), nodetest.Visit{Lock: lock})
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	second, err := waiting.Wait(blocking(t))
	require.NoError(t, err)
	t.Logf("foo entered %v after B was killed", second.From.Sub(killed))
	assert.Greater(t, second.Token, first)
	_, err = holder.Wait(blocking(t))
	assert.ErrorIs(t, err, rpc.ErrUnreachable)
}

// The holder of a monitor stands still, and loses the lock.
func TestAHolderThatStoodStillHasLostTheLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	t.Setenv(quick, "1")
	url := serve(t, &server.Options{}).ClientURL()
	n, m := nodeAt(t, url, "a"), nodeAt(t, url, "c")
	lock, err := monitor.New(t.Context(), n, "lock")
	require.NoError(t, err)
	cmd := startNode(t, "b", url)
	inside := make(chan uint64, 1)
	a, err := m.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", nodetest.Stayed)
		rpc.Func(p, "inside", func(_ coroutine.Context, token uint64) (none, error) {
			inside <- token
			return none{}, nil
		})
		return nil
	})
	require.NoError(t, err)
	tell := rpc.At[uint64, none](a, "inside")
	holder := rpc.At[nodetest.Visit, nodetest.Stay](m.Remote("b", "B"), "bar").Future(t.Context(), nodetest.Visit{Lock: lock, For: time.Hour, Inside: tell})
	first := <-inside
	signal(t, cmd, "STOP")
	second, err := rpc.At[nodetest.Visit, nodetest.Stay](a, "foo").Call(blocking(t), nodetest.Visit{Lock: lock})
	require.NoError(t, err)
	assert.Greater(t, second.Token, first)
	_, err = holder.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	signal(t, cmd, "CONT")
	eventually(t, "it enters again", func() bool {
		third, err := rpc.At[nodetest.Visit, nodetest.Stay](m.Remote("b", "B"), "bar").Call(blocking(t), nodetest.Visit{Lock: lock})
		return err == nil && third.Token > second.Token
	})
}

// TestX3_DeathOfTheProgramThatIsInside kills a program whose function is the one that may be current.
func TestX3_DeathOfTheProgramThatIsInside(t *testing.T) {
	url := serve(t, &server.Options{}).ClientURL()
	n := nodeAt(t, url, "a")
	cmd := startNode(t, "b", url)
	b := n.Remote("b", "B")
	inside := make(chan none)
	var tell rpc.Ref[none, none]
	a, err := n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "use", func(coroutine.Context, none) (none, error) { return none{}, nil })
		tell = rpc.Func(p, "", func(coroutine.Context, none) (none, error) {
			inside <- none{}
			return none{}, nil
		})
		return nil
	})
	require.NoError(t, err)
	_, err = n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		s.AtMost(1, synchronizer.Event{Of: a, Method: "use"}, synchronizer.Event{Of: b, Method: "use"})
	})
	require.NoError(t, err)
	call := rpc.At[rpc.Ref[none, none], none](b, "use").Future(t.Context(), tell)
	<-inside
	other := rpc.At[none, none](a, "use").Future(t.Context(), none{})
	time.Sleep(20 * time.Millisecond)
	require.False(t, other.Done(), "B is inside")
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	_, err = other.Wait(blocking(t))
	require.NoError(t, err)
	t.Logf("A was inside %v after B was killed", time.Since(killed))
	_, err = call.Wait(blocking(t))
	assert.ErrorIs(t, err, rpc.ErrUnreachable)
}

// TestX4_DeathOfTheProgramWithTheSynchronizer kills the program of a synchronizer, and starts another one in its place.
func TestX4_DeathOfTheProgramWithTheSynchronizer(t *testing.T) {
	url := serve(t, &server.Options{}).ClientURL()
	n := nodeAt(t, url, "a")
	a, err := n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "use", func(coroutine.Context, none) (none, error) { return none{}, nil })
		return nil
	})
	require.NoError(t, err)
	use := rpc.At[none, none](a, "use")
	cmd := startNode(t, "b", url, member+"=a")
	_, err = use.Call(blocking(t), none{})
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	call := use.Future(t.Context(), none{})
	time.Sleep(50 * time.Millisecond)
	assert.False(t, call.Done(), "no synchronizer has agreed")
	startNode(t, "b", url, member+"=a")
	_, err = call.Wait(blocking(t))
	require.NoError(t, err)
}
