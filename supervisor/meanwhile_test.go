package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/supervisor"
)

// Tests of requests that are interrupted by the crash of a sibling or the end of their context.

// slow is a child that takes ten seconds to stop.
func (c *services) slow(name string) supervisor.Child {
	run := c.run(name)
	return supervisor.Child{Name: name, Patience: time.Minute, Run: func(ctx context.Context) error {
		err := run(ctx)
		time.Sleep(10 * time.Second)
		return err
	}}
}

// later calls f on a goroutine of its own, and returns when all goroutines are blocked.
func later(f func() error) (answer <-chan error) {
	all := make(chan error, 1)
	go func() { all <- f() }()
	synctest.Wait()
	return all
}

func TestTerminateReturnsAndTheChildStaysDownIfASiblingCrashesMeanwhile(t *testing.T) {
	held(t)
	for _, strategy := range []supervisor.Strategy{supervisor.RestForOne, supervisor.OneForAll, supervisor.OneForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(strategy, long, named("a")...)
				c.spec.Children = append(c.spec.Children, c.slow("slow"))
				tree := c.start(t)
				terminated := later(func() error { return tree.Terminate("slow") })
				require.Equal(t, "stopping", state(tree, "slow"))
				c.order("a", boomed)
				start := time.Now()
				require.NoError(t, <-terminated)
				assert.LessOrEqual(t, time.Since(start), 10*time.Second)
				synctest.Wait()
				assert.Equal(t, "down", state(tree, "slow"))
				assert.Equal(t, "running", state(tree, "a"))
				assert.Equal(t, 1, c.book.count("+slow"))
				require.NoError(t, tree.Restart(t.Context(), "slow"))
				require.NoError(t, tree.Remove("slow"))
				tree.Stop()
			})
		})
	}
}

func TestACancelledRestartReturnsAlthoughASiblingCrashesMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.RestForOne, long, named("a")...)
		starts := 0
		c.spec.Children = append(c.spec.Children, supervisor.Child{
			Name: "b", Patience: time.Minute, Serve: func(ctx context.Context, ready func()) error {
				if starts++; starts == 1 {
					ready()
				}
				<-ctx.Done()
				time.Sleep(10 * time.Second)
				return nil
			},
		})
		tree := c.start(t)
		require.NoError(t, tree.Terminate("b"))
		ctx, cancel := context.WithCancel(t.Context())
		restarted := later(func() error { return tree.Restart(ctx, "b") })
		cancel()
		synctest.Wait()
		require.Equal(t, "stopping", state(tree, "b"))
		c.order("a", boomed)
		require.ErrorIs(t, <-restarted, context.Canceled)
		synctest.Wait()
		assert.Equal(t, "down", state(tree, "b"))
		assert.Equal(t, 2, starts)
		tree.Stop()
	})
}

// waitingRestart returns a tree whose child b is to be restarted by a request, but waits for its sibling a, which
// pauses for a minute.
func waitingRestart(t *testing.T) (tree *supervisor.Tree, restarted <-chan error, cancel func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := newServices(supervisor.RestForOne, long, named("a")...)
	starts := 0
	c.spec.Backoff = supervisor.Backoff{First: time.Minute, Jitter: -1}
	c.spec.Children = append(c.spec.Children, supervisor.Child{Name: "b", Serve: func(ctx context.Context, ready func()) error {
		if starts++; starts != 2 {
			ready()
		}
		<-ctx.Done()
		return nil
	}})
	tree = c.start(t)
	require.NoError(t, tree.Terminate("b"))
	restarted = later(func() error { return tree.Restart(ctx, "b") })
	c.order("a", boomed)
	require.Equal(t, "restarting", state(tree, "b"))
	return tree, restarted, cancel
}

func TestARestartThatIsHeldUpEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tree, restarted, cancel := waitingRestart(t)
		start := time.Now()
		cancel()
		require.ErrorIs(t, <-restarted, context.Canceled)
		assert.Zero(t, time.Since(start))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, "running", state(tree, "a"))
		assert.Equal(t, "down", state(tree, "b"))
		tree.Stop()
	})
}

func TestARestartThatIsHeldUpEndsWhenItsChildIsTerminated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tree, restarted, cancel := waitingRestart(t)
		defer cancel()
		require.NoError(t, tree.Terminate("b"))
		require.ErrorIs(t, <-restarted, supervisor.ErrShutdown)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, "down", state(tree, "b"))
		tree.Stop()
	})
}

func TestAnEndedContextRestartsAndAddsNothing(t *testing.T) {
	for range 100 {
		bubble(t, func(t *testing.T) {
			c := newServices(supervisor.RestForOne, long, named("a")...)
			tree := c.start(t)
			require.NoError(t, tree.Terminate("a"))
			c.book.read()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, tree.Restart(ctx, "a"), context.Canceled)
			_, err := tree.Add(ctx, c.child("b", supervisor.Permanent))
			require.ErrorIs(t, err, context.Canceled)
			synctest.Wait()
			require.Empty(t, c.book.read())
			require.Equal(t, []string{"a"}, names(tree))
			tree.Stop()
		})
	}
}

func TestInfoMayBeCalledConcurrentlyAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		below := newServices(supervisor.OneForOne, long, named("x", "y")...)
		below.spec.Name = "below"
		c.spec.Children = append(c.spec.Children, nested(below.spec))
		tree := c.start(t)
		tree.Stop()
		texts := make(chan string)
		for range 8 {
			go func() { texts <- tree.Info().Children[0].Supervisor.Name }()
		}
		for range 8 {
			require.Contains(t, <-texts, "below")
		}
		first := tree.Info()
		first.Children[0].Name = "changed"
		require.Equal(t, "below", tree.Info().Children[0].Name)
	})
}
