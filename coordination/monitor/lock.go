package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/supervisor"
)

// Lock is the lock of a monitor. It is a value that can be sent to other
// processes: it is the address of a process that has the lock. The zero Lock
// belongs to no monitor.
type Lock struct {
	Address rpc.Address
}

// New starts a process that has a lock, on a node: see [rpc.Node.Spawn].
func New(ctx context.Context, node *rpc.Node, name string) (Lock, error) {
	link.CheckContext(ctx, "monitor: New")
	if node == nil {
		panic("monitor: New: the Node is nil")
	}
	a, err := node.Spawn(ctx, name, serve())
	return Lock{a}, err
}

// Child is [New] for a process that a supervisor restarts; the lock is
// Lock{node.Address(name)}. When the process is restarted, the function that is
// inside has lost the lock, and functions that wait to enter fail with
// [rpc.ErrUnreachable].
func Child(node *rpc.Node, name string) supervisor.Child { return node.Child(name, serve()) }

// The functions of a lock's process.
const (
	fnEnter   = "enter"
	fnLeave   = "leave"
	fnRelease = "release"
	fnWait    = "wait"
	fnSignal  = "signal"
)

// entering is a request to enter. Its fields become the fields of an entry.
type entering struct {
	ID    uint64
	Node  rpc.Address // the node of the function that enters
	Owner uint64
}

// waiting is a request to wait for a condition.
type waiting struct {
	Token     uint64
	Condition string
}

// signalling is a request to signal a condition.
type signalling struct {
	Token     uint64
	Condition string
	All       bool
}

// server is the process of a lock. Its fields belong to the process.
type server struct {
	p       *rpc.Process
	baton   baton
	wakes   map[*entry]func() // wake functions of waiting entries
	watched map[string]bool   // nodes
}

// serve returns the init of a process that has a lock.
func serve() func(p *rpc.Process) error {
	var last *server // of the incarnation before
	return func(p *rpc.Process) error {
		s := &server{p: p, wakes: map[*entry]func(){}, watched: map[string]bool{}}
		// Tokens grow from one incarnation to the next, and from one program to
		// the next, as long as the clock does.
		s.baton.token = uint64(time.Now().UnixNano())
		if last != nil {
			s.baton.token = max(s.baton.token, last.baton.token+1)
		}
		last = s
		rpc.Func(p, fnEnter, s.enter)
		rpc.Func(p, fnLeave, s.leave)
		rpc.Func(p, fnRelease, s.release)
		rpc.Func(p, fnWait, s.wait)
		rpc.Func(p, fnSignal, s.signal)
		return nil
	}
}

func (s *server) enter(c coroutine.Context, in entering) (token uint64, err error) {
	e := &entry{id: in.ID, node: in.Node.Node(), owner: in.Owner}
	granted, err := s.baton.enter(e)
	if err != nil {
		return 0, ErrNested
	}
	s.watch(in.Node)
	return s.await(c, e, granted)
}

func (s *server) wait(c coroutine.Context, in waiting) (token uint64, err error) {
	e, granted := s.baton.wait(in.Token, in.Condition)
	if e == nil {
		return 0, fmt.Errorf("%w: wait", ErrLost)
	}
	return s.await(c, e, granted)
}

func (s *server) release(_ coroutine.Context, token uint64) (struct{}, error) {
	granted, ok := s.baton.release(token)
	if !ok {
		return struct{}{}, fmt.Errorf("%w: release", ErrLost)
	}
	s.wake(granted)
	return struct{}{}, nil
}

func (s *server) leave(_ coroutine.Context, id uint64) (struct{}, error) {
	s.wake(s.baton.leave(id))
	return struct{}{}, nil
}

func (s *server) signal(_ coroutine.Context, in signalling) (struct{}, error) {
	s.baton.signal(in.Token, in.Condition, in.All)
	return struct{}{}, nil
}

// await suspends the request of an entry until it has the baton. granted is the
// entry that has just got it, if there is one.
func (s *server) await(c coroutine.Context, e, granted *entry) (token uint64, err error) {
	if granted != e {
		s.wake(granted)
		err = c.Suspend(func(wake func()) { s.wakes[e] = wake })
		delete(s.wakes, e)
	}
	switch {
	case err != nil: // its caller is gone, or this process ends
		s.wake(s.baton.leave(e.id))
		return 0, err
	case e.token == 0: // its node was lost
		return 0, fmt.Errorf("%w: while it was waited for", ErrLost)
	default:
		return e.token, nil
	}
}

// wake continues the request of an entry that has got the baton, or lost its
// place. The entry may be nil.
func (s *server) wake(e *entry) {
	if wake := s.wakes[e]; wake != nil {
		wake()
	}
}

// watch has the entries of a node removed when the node has ended, or seems to
// have.
func (s *server) watch(node rpc.Address) {
	name := node.Node()
	if name == s.p.Address().Node() || s.watched[name] {
		return
	}
	s.watched[name] = true
	s.p.Watch(s.p.Node().Remote(name, ""), func(coroutine.Context, error) {
		delete(s.watched, name)
		lost, granted := s.baton.lose(name)
		for _, e := range lost {
			e.token = 0
			s.wake(e)
		}
		s.wake(granted)
	})
}
