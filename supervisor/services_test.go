package supervisor_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/supervisor"
)

// services is a supervisor of services that do what the test orders, and a diary of what they did.
type services struct {
	book diary
	spec supervisor.Spec

	mu     sync.Mutex
	orders map[string]chan func() error
}

func newServices(strategy supervisor.Strategy, in supervisor.Intensity, children ...supervisor.Child) *services {
	c := &services{orders: map[string]chan func() error{}}
	c.spec = supervisor.Spec{Name: actor.Unique(system, "services"), Strategy: strategy, Intensity: in, Children: children}
	for i := range c.spec.Children {
		if k := &c.spec.Children[i]; k.Run == nil && k.Serve == nil && k.Spawn == nil && k.Supervisor == nil {
			k.Run = c.run(k.Name)
		}
	}
	return c
}

func (c *services) start(t *testing.T) *supervisor.Tree {
	t.Helper()
	tree, err := supervisor.Start(t.Context(), system, c.spec)
	require.NoError(t, err)
	synctest.Wait()
	return tree
}

// channel returns the channel from which the incarnations of a service receive orders.
func (c *services) channel(name string) chan func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.orders[name] == nil {
		c.orders[name] = make(chan func() error)
	}
	return c.orders[name]
}

func (c *services) run(name string) func(context.Context) error {
	channel := c.channel(name)
	return func(ctx context.Context) error {
		c.book.write("+" + name)
		select {
		case do := <-channel:
			return do()
		case <-ctx.Done():
			c.book.write("-" + name)
			return ctx.Err()
		}
	}
}

// child returns one more service.
func (c *services) child(name string, r supervisor.Restart) supervisor.Child {
	return supervisor.Child{Name: name, Run: c.run(name), Restart: r}
}

// order has a service do something, and waits until everything that follows is done.
func (c *services) order(name string, do func() error) {
	c.channel(name) <- do
	synctest.Wait()
}

// The ways to end.
func boomed() error   { return errBoom }
func normal() error   { return nil }
func panicked() error { panic(errBoom) }
func exited() error {
	runtime.Goexit()
	return nil
}
func shutdown() error        { return supervisor.ErrShutdown }
func wrappedShutdown() error { return fmt.Errorf("enough: %w", supervisor.ErrShutdown) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t)
		time.Sleep(time.Minute) // protoactor's throttle of dead letters has to wake up and end
	})
}

func named(names ...string) (all []supervisor.Child) {
	for _, n := range names {
		all = append(all, supervisor.Child{Name: n})
	}
	return all
}

func names(t *supervisor.Tree) (all []string) {
	for _, c := range t.Children() {
		all = append(all, c.Name)
	}
	return all
}

func state(t *supervisor.Tree, name string) string {
	for _, c := range t.Children() {
		if c.Name == name {
			return c.State.String()
		}
	}
	return "forgotten"
}
