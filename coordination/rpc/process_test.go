package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
)

// asNodeB, in the environment, makes this program the node B of a test: its value is where to listen, such as tcp:127.0.0.1:0. If member is there too,
// node B has a synchronizer for the process A of that node.
const (
	asNodeB = "GOLDA_TEST_RPC_B"
	member  = "GOLDA_TEST_RPC_MEMBER"
)

func TestMain(m *testing.M) {
	if os.Getenv(asNodeB) != "" {
		if err := nodeB(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// nodeB runs a node until its standard input is closed.
func nodeB() error {
	network, at, _ := strings.Cut(os.Getenv(asNodeB), ":")
	tr, err := transport.Listen(network, at, transport.Config{Secret: secretFor(network)})
	if err != nil {
		return err
	}
	n, err := rpc.NewNode(rpc.Config{Transport: tr})
	if err != nil {
		return err
	}
	if _, err = n.Spawn(context.Background(), "B", func(p *rpc.Process) error {
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
		if _, err := n.Synchronize(context.Background(), "S", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, synchronizer.Event{Of: n.Remote(of, "A"), Method: "use"})
		}); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, n.Name())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return n.Close()
}

// secretFor returns the secret of nodes on a network. Unix sockets have none.
func secretFor(network string) []byte {
	if network == "unix" {
		return nil
	}
	return nodetest.Secret()
}

const anyPort = "tcp:127.0.0.1:0"

// startB starts a process of the operating system, and returns the name of its node.
func startB(t *testing.T, at string, env ...string) (cmd *exec.Cmd, node string) {
	t.Helper()
	return nodetest.Start(t, append(env, asNodeB+"="+at)...)
}

// TestX3_DeathOfTheProgramThatHoldsALock kills a program whose process has the lock of S1, while S2 verifies its request.
func TestX3_DeathOfTheProgramThatHoldsALock(t *testing.T) {
	n := nodeOn(t, listen(t))
	cmd, node := startB(t, anyPort)
	b := n.Remote(node, "B")
	a := spawnCounting(t, n, "A", "use")
	asked, answer := make(chan none), make(chan none)
	must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
		s.Constrain(a, "use", always)
		s.Constrain(b, "use", always)
	}))
	must(n.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
		s.Constrain(b, "use", func(guard.Request) bool {
			asked <- none{}
			<-answer
			return true
		})
	}))
	call := rpc.At[rpc.Ref[none, none], none](b, "use").Future(t.Context(), rpc.Ref[none, none]{})
	<-asked
	other := rpc.At[none, none](a, "use").Future(t.Context(), none{})
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	_, err := call.Wait(blocking(t))
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	answer <- none{}
	must(other.Wait(blocking(t)))
	t.Logf("A ran %v after B was killed", time.Since(killed))
}

// TestX3_DeathOfTheProgramThatIsInside kills a program whose function is the one that may be current.
func TestX3_DeathOfTheProgramThatIsInside(t *testing.T) {
	n := nodeOn(t, listen(t))
	cmd, node := startB(t, anyPort)
	b := n.Remote(node, "B")
	inside := make(chan none)
	var tell rpc.Ref[none, none]
	a := spawn(t, n, "A", func(p *rpc.Process) {
		rpc.Func(p, "use", func(coroutine.Context, none) (none, error) { return none{}, nil })
		tell = rpc.Func(p, "", func(coroutine.Context, none) (none, error) {
			inside <- none{}
			return none{}, nil
		})
	})
	must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		s.AtMost(1, synchronizer.Event{Of: a, Method: "use"}, synchronizer.Event{Of: b, Method: "use"})
	}))
	call := rpc.At[rpc.Ref[none, none], none](b, "use").Future(t.Context(), tell)
	<-inside
	other := rpc.At[none, none](a, "use").Future(t.Context(), none{})
	time.Sleep(20 * time.Millisecond)
	require.False(t, other.Done(), "B is inside")
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	must(other.Wait(blocking(t)))
	t.Logf("A was inside %v after B was killed", time.Since(killed))
	_, err := call.Wait(blocking(t))
	assert.ErrorIs(t, err, rpc.ErrUnreachable)
}

// TestX4_DeathOfTheProgramWithTheSynchronizer kills the program of a synchronizer, and starts another one in its place.
func TestX4_DeathOfTheProgramWithTheSynchronizer(t *testing.T) {
	dir := must(os.MkdirTemp("", "golda")) //nolint:usetesting // the name of a socket must be short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := nodeOn(t, must(transport.Listen("unix", filepath.Join(dir, "a"), transport.Config{})))
	a := spawnCounting(t, n, "A", "use")
	use := rpc.At[none, none](a, "use")
	socket := filepath.Join(dir, "b")
	cmd, _ := startB(t, "unix:"+socket, member+"="+n.Name())
	must(use.Call(blocking(t), none{}))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	call := use.Future(t.Context(), none{})
	time.Sleep(50 * time.Millisecond)
	assert.False(t, call.Done(), "no synchronizer has agreed")
	require.NoError(t, os.Remove(socket))
	startB(t, "unix:"+socket, member+"="+n.Name())
	must(call.Wait(blocking(t)))
	assert.Equal(t, 2, counted(t, a).Accepted)
}

func TestWhatIsWrongWithAProcessIsSaidOnce(t *testing.T) {
	n := nodeOn(t, new(transport.Hub).Join("n"))
	fine := func(*rpc.Process) error { return nil }
	_, err := n.Spawn(t.Context(), "", fine)
	require.EqualError(t, err, "rpc: Spawn: the process has no name")
	_, err = n.Spawn(t.Context(), "p", nil)
	require.EqualError(t, err, `rpc: process "p": init is nil`)
	_, err = n.Spawn(t.Context(), strings.Repeat("x", 1<<20), fine)
	require.ErrorContains(t, err, "the name has 1048576 bytes, the most is 1024")
	require.Less(t, len(err.Error()), 512)
}
