package monitor_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
)

// asProcessB, in the environment, makes this program the process B of a test.
const asProcessB = "GOLDA_TEST_MONITOR_B"

func TestMain(m *testing.M) {
	if os.Getenv(asProcessB) != "" {
		if err := processB(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// processB runs a node until its standard input is closed.
func processB() error {
	tr, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: nodetest.Secret()})
	if err != nil {
		return err
	}
	n, err := rpc.NewNode(rpc.Config{Transport: tr})
	if err != nil {
		return err
	}
	if _, err = n.Spawn(context.Background(), "B", func(p *rpc.Process) error {
		rpc.Func(p, "bar", nodetest.Stayed)
		return nil
	}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, n.Name())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return n.Close()
}

// startB starts a process of the operating system, and returns the name of its node.
func startB(t *testing.T) (cmd *exec.Cmd, node string) { return nodetest.Start(t, asProcessB+"=1") }

// TestS002_5_DistributedMonitor is figure 15: foo of A and bar of B are functions of one monitor, and B is another
// process of the operating system.
func TestS002_5_DistributedMonitor(t *testing.T) {
	n := nodeOn(t, listen(t))
	lock := lockOn(t, n)
	_, node := startB(t)
	bar := rpc.At[nodetest.Visit, nodetest.Stay](n.Remote(node, "B"), "bar")
	a := must(n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", nodetest.Stayed)
		return nil
	}))
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
}

// TestS002_5_DeathOfTheHolder kills B while bar is inside and foo waits.
func TestS002_5_DeathOfTheHolder(t *testing.T) {
	n := nodeOn(t, listen(t))
	lock := lockOn(t, n)
	cmd, node := startB(t)
	inside := make(chan uint64, 1)
	var tell rpc.Ref[uint64, none]
	a := must(n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", nodetest.Stayed)
		tell = rpc.Func(p, "", func(_ coroutine.Context, token uint64) (none, error) {
			inside <- token
			return none{}, nil
		})
		return nil
	}))
	bar := rpc.At[nodetest.Visit, nodetest.Stay](n.Remote(node, "B"), "bar").Future(t.Context(), nodetest.Visit{Lock: lock, For: time.Hour, Inside: tell})
	first := <-inside
	foo := rpc.At[nodetest.Visit, nodetest.Stay](a, "foo").Future(t.Context(), nodetest.Visit{Lock: lock})
	time.Sleep(20 * time.Millisecond)
	require.False(t, foo.Done(), "bar is inside")

	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	second, err := foo.Wait(coroutine.Blocking(ctx))
	require.NoError(t, err)
	t.Logf("foo entered %v after B was killed", second.From.Sub(killed))
	assert.Greater(t, second.Token, first)
	_, err = bar.Wait(coroutine.Blocking(ctx))
	assert.ErrorIs(t, err, rpc.ErrUnreachable)
}
