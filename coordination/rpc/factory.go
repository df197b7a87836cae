package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage"
)

// errNoProcess and errInit say why a process of another node has not been
// started. They are registered, so that errors.Is finds them at the caller's
// node.
var (
	errNoProcess = errors.New("there is no process")
	errInit      = errors.New("rpc: not started")
)

func init() {
	transport.RegisterError("rpc.errNoProcess", errNoProcess)
	transport.RegisterError("rpc.errInit", errInit)
}

// factories begins the names of the processes that serve SpawnAt.
const factories = "factory of "

// Factory has other nodes start processes here, by [SpawnAt] with the name
// kind: init runs as the init of [Node.Spawn] does, with the value that SpawnAt
// was given. At most "most" processes run at once; a further one is refused
// with stage.ErrFull. They run until the node is closed, or [Node.Stop] or
// [StopAt] stops them, even if the node that started them is lost.
//
// The name is without "/" and "#". [Node.Stop] removes the factory, by "factory
// of " and the name; its processes continue.
func Factory[Arg any](ctx context.Context, n *Node, kind string, most int, init func(p *Process, arg Arg) error) error {
	link.CheckContext(ctx, "rpc: Factory")
	switch {
	case kind == "" || strings.ContainsAny(kind, "/#"):
		return fmt.Errorf("rpc: factory %q: the name must not be empty, or contain / or #", kind)
	case most < 1:
		return fmt.Errorf("rpc: factory %q: at least one process must be allowed, not %d", kind, most)
	case init == nil:
		return fmt.Errorf("rpc: factory %q: init is nil", kind)
	}
	_, err := n.Spawn(ctx, factories+kind, func(p *Process) error {
		f := &factory{process: p, kind: kind, most: most, living: map[string]struct{}{}}
		Func(p, "spawn", func(c coroutine.Context, o spawning[Arg]) (Address, error) {
			return f.spawn(c, o.Name, func(p *Process) error { return init(p, o.Arg) })
		})
		Func(p, "stop", f.stop)
		return nil
	})
	return err
}

// spawning is a request to a factory.
type spawning[Arg any] struct {
	Name string
	Arg  Arg
}

// SpawnAt starts a process at another node, by a [Factory] there, and returns
// its address when its init has returned. Calls to it, and [Address.Watch],
// which reports its end, leave through the node via. The process is called kind
// and name, with a "/" between them; with an empty name it is given a number.
// arg is the argument of init.
//
// The error is [ErrNoFunction] if the node has no factory of that kind,
// [ErrUnreachable] if it is away, stage.ErrFull if the factory has as many
// processes as it may have, and otherwise the error of Spawn or init there. If
// the caller gives up first, the process is stopped. If the connection is lost
// during the call, the process may have been started.
func SpawnAt[Arg any](c coroutine.Context, via *Node, node, kind, name string, arg Arg) (Address, error) {
	a, err := At[spawning[Arg], Address](via.Remote(node, factories+kind), "spawn").Call(c, spawning[Arg]{name, arg})
	if err != nil {
		return Address{}, atFactory(err, node, kind)
	}
	return a, nil
}

// StopAt stops a process that [SpawnAt] has started, and waits for its end. The
// caller must not be that process.
func StopAt(c coroutine.Context, a Address) error {
	kind, _, ok := strings.Cut(a.process, "/")
	if !ok {
		return fmt.Errorf("rpc: process %s was not started by a factory", a)
	}
	stop := At[string, struct{}](Address{a.node, factories + kind, a.at}, "stop")
	if _, err := stop.Call(c, a.process); err != nil {
		return atFactory(err, a.node, kind)
	}
	return nil
}

// atFactory says which factory an error is about.
func atFactory(err error, node, kind string) error {
	if errors.Is(err, errNoProcess) && !errors.Is(err, errInit) {
		return fmt.Errorf("%w: node %q has no factory %q", ErrNoFunction, node, kind)
	}
	return fmt.Errorf("rpc: factory %q of node %q: %w", kind, node, err)
}

// factory starts processes for other nodes. It belongs to its process.
type factory struct {
	process *Process
	kind    string
	most    int
	last    int
	living  map[string]struct{} // its processes, starting ones included
}

// spawn starts a process. Others may be started or stopped meanwhile.
func (f *factory) spawn(c coroutine.Context, name string, init func(p *Process) error) (Address, error) {
	if len(f.living) >= f.most {
		return Address{}, fmt.Errorf("%w: it has %d processes, and may have no more", stage.ErrFull, f.most)
	}
	if name == "" {
		f.last++
		name = strconv.Itoa(f.last)
	}
	name = f.kind + "/" + name
	if _, taken := f.living[name]; taken || strings.Contains(name, "#") {
		return Address{}, fmt.Errorf("%w: the name %q is taken, or contains #", errInit, name)
	}
	f.living[name] = struct{}{}
	n := f.process.node
	a, err := coroutine.Await(c, func(ctx context.Context) (Address, error) {
		a, err := n.Spawn(ctx, name, init)
		if err == nil && ctx.Err() != nil { // nothing waits for it any more
			_ = n.Stop(name)
			err = ctx.Err()
		}
		return a, err
	})
	// Spawn continues, and then notices
	if errors.Is(err, coroutine.ErrStopped) {
		return Address{}, f.after(name, err)
	}
	if err != nil {
		delete(f.living, name)
		return Address{}, fmt.Errorf("%w: %w", errInit, err)
	}
	f.process.Watch(a, func(coroutine.Context, error) { delete(f.living, name) })
	return a, nil
}

// after frees the place of a process whose start was given up, when that has
// ended.
func (f *factory) after(name string, reason error) error {
	n := f.process.node
	f.process.Go(func(c coroutine.Context) {
		_, _ = coroutine.Await(c, func(context.Context) (struct{}, error) { return struct{}{}, n.Stop(name) })
		delete(f.living, name)
	})
	return reason
}

// stop stops a process of the factory.
func (f *factory) stop(c coroutine.Context, name string) (none struct{}, err error) {
	if _, ok := f.living[name]; !ok {
		return none, fmt.Errorf("%w: process %s is not one of the factory", ErrUnreachable, f.process.node.Address(name))
	}
	_, err = coroutine.Await(c, func(context.Context) (struct{}, error) { return none, f.process.node.Stop(name) })
	return none, err
}
