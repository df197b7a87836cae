package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/supervisor"
)

// Config configures a Node. Its zero value is ready for use: a node that only
// has calls within the program.
type Config struct {
	// Transport carries calls to and from other nodes. The node closes it. If
	// it is nil there are no other nodes.
	Transport transport.Transport

	// Logger logs crashes of processes, and of functions that no caller waits
	// for. If it is nil it is slog.Default().
	Logger *slog.Logger

	// MaxRequests is how many requests of one other node may be under way here:
	// queued, held back or served. A further one is refused with stage.ErrFull.
	// 0 means 4096.
	MaxRequests int

	// MaxRequestBytes is how many bytes the arguments of these may have
	// together, if the transport encodes them. One request may be longer, if it
	// is the only one. 0 means 64 MiB.
	MaxRequestBytes int

	// MaxWatches is how many watches of processes one other node may have here.
	// A process that is watched beyond that is reported as ended, which a
	// notice may be wrong about. 0 means 16384.
	MaxWatches int

	// MaxRules is for how many functions the rules of synchronizers of one
	// other node are kept, also for processes that have not started. A
	// synchronizer beyond that fails to start. 0 means 4096.
	MaxRules int
}

// The defaults of a Config.
const (
	defaultMaxRequests     = 4096
	defaultMaxRequestBytes = 64 << 20
	defaultMaxWatches      = 16384
	defaultMaxRules        = 4096
)

// complete returns the configuration with its defaults.
func (cfg Config) complete() (Config, error) {
	if cfg.MaxRequests < 0 || cfg.MaxRequestBytes < 0 || cfg.MaxWatches < 0 || cfg.MaxRules < 0 {
		return cfg, fmt.Errorf("rpc: negative number in Config: MaxRequests %d, MaxRequestBytes %d, MaxWatches %d, MaxRules %d",
			cfg.MaxRequests, cfg.MaxRequestBytes, cfg.MaxWatches, cfg.MaxRules)
	}
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, defaultMaxRequests)
	cfg.MaxRequestBytes = cmp.Or(cfg.MaxRequestBytes, defaultMaxRequestBytes)
	cfg.MaxWatches = cmp.Or(cfg.MaxWatches, defaultMaxWatches)
	cfg.MaxRules = cmp.Or(cfg.MaxRules, defaultMaxRules)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg, nil
}

// Node is where processes live: one program, in most cases. Its methods may be
// called by any goroutine.
type Node struct {
	name  string
	birth uint64 // tells this node from one that had its name before
	cfg   Config

	mu        sync.Mutex // guards the fields below
	closed    bool
	processes map[string]*Process // by name, the newest incarnations
	system    *actor.System       // of all that Spawn and Synchronize have started; nil until there is something
	tree      *supervisor.Tree    // of the processes that Spawn has started; nil likewise
	last      uint64              // the last number of a call, a watch or an incarnation
	peers     map[string]*peer    // other nodes that have something to do with this one
	self      map[*watch]struct{} // watches of the node

	// first is a number below the incarnations of all processes.
	first       uint64
	incarnation uint64 // the last one of a process
	// rules holds the installed rules, by process and synchronizer.
	rules     map[string]map[string]envelope
	rulebooks map[string]*rulebook           // of Synchronize, from before their start until they have ended
	ruled     map[string]map[string]struct{} // the processes that have the rules of synchronizers of this node, by synchronizer

	loads      map[string]load // of the requests of other nodes that are under way here
	dropped    int             // messages of other nodes, since one was logged
	complained time.Time       // when it was

	coordinated atomic.Uint64 // messages between processes and synchronizers that were sent
}

// NewNode returns a node. It fails if its transport cannot serve, or a limit is
// negative.
func NewNode(cfg Config) (*Node, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	first := uint64(time.Now().UnixNano())
	n := &Node{
		first: first, incarnation: first,
		birth: rand.Uint64(), last: uint64(rand.Uint32()) << 20, cfg: cfg,
		processes: map[string]*Process{}, peers: map[string]*peer{}, loads: map[string]load{}, self: map[*watch]struct{}{},
		rules: map[string]map[string]envelope{}, rulebooks: map[string]*rulebook{}, ruled: map[string]map[string]struct{}{},
	}
	if cfg.Transport == nil {
		return n, nil
	}
	n.name = cfg.Transport.Node()
	if strings.Contains(n.name, "#") {
		return nil, fmt.Errorf("rpc: the name of a node must not contain #: %q", n.name)
	}
	if err := cfg.Transport.Serve(n.receive); err != nil {
		return nil, fmt.Errorf("rpc: %w", err)
	}
	return n, nil
}

// Name returns the name of the node: the name of its transport.
func (n *Node) Name() string { return n.name }

// Address returns the address of a process of this node, whether or not there
// is one.
func (n *Node) Address(process string) Address { return Address{n.name, process, n} }

// Remote returns the address of a process of another node, whether or not there
// is one.
func (n *Node) Remote(node, process string) Address { return Address{node, process, n} }

// Spawn starts a process of the node, and returns when init has returned. init
// adds the functions of the process; if it fails, so does Spawn. The process
// runs until the node is closed or [Node.Stop] stops it. If it crashes, as it
// does when a guard panics, it has ended: to have a process restarted, start it
// as a child of a supervisor (see [Node.Child]).
//
// If there is a process or a synchronizer of that name the error is
// supervisor.ErrAlreadyStarted. A process has its name until its functions have
// returned; if one does not, and its supervisor has given it up, until another
// takes the name. Processes are started and stopped one after another: while
// init blocks, until ctx ends, other calls of Spawn and [Node.Stop] wait.
func (n *Node) Spawn(ctx context.Context, name string, init func(p *Process) error) (Address, error) {
	link.CheckContext(ctx, "rpc: Spawn")
	switch {
	case name == "":
		return Address{}, errors.New("rpc: Spawn: the process has no name")
	case len(name) > maxName:
		return Address{}, fmt.Errorf("rpc: process %.64q…: the name has %d bytes, the most is %d", name, len(name), maxName)
	case init == nil:
		return Address{}, fmt.Errorf("rpc: process %q: init is nil", name)
	}
	tree, err := n.root(ctx)
	if err != nil {
		return Address{}, fmt.Errorf("rpc: process %q: %w", name, err)
	}
	child := n.Child(name, init)
	child.Restart = supervisor.Temporary
	if _, err := tree.Add(ctx, child); err != nil {
		return Address{}, fmt.Errorf("rpc: process %q: %w", name, err)
	}
	return n.Address(name), nil
}

// Stop stops a process that [Node.Spawn] has started, and waits for its end:
// its functions that are suspended are stopped, and their calls fail with
// [ErrUnreachable]. It also stops a synchronizer of [Node.Synchronize], also
// one that is being started. If [Node.Close] stops that first its rules stay,
// and the error of Stop wraps [ErrUnreachable].
func (n *Node) Stop(name string) error {
	n.mu.Lock()
	tree, book := n.tree, n.rulebooks[name]
	n.mu.Unlock()
	switch {
	case book != nil:
		return book.stop()
	case tree == nil:
		return fmt.Errorf("rpc: process %q: %w", name, supervisor.ErrNotFound)
	}
	if err := tree.Remove(name); err != nil {
		return fmt.Errorf("rpc: process %q: %w", name, err)
	}
	return nil
}

// root returns the supervisor of the processes that Spawn starts. It does not
// restart them.
func (n *Node) root(ctx context.Context) (*supervisor.Tree, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, n.errClosed()
	}
	if n.tree != nil {
		return n.tree, nil
	}
	tree, err := supervisor.Start(context.WithoutCancel(ctx), n.actorsLocked(), supervisor.Spec{
		Name: "rpc", Log: n.cfg.Logger, Strategy: supervisor.OneForOne,
	})
	n.tree = tree
	return tree, err
}

// actors returns the actor system of the node.
func (n *Node) actors() *actor.System {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.actorsLocked()
}

func (n *Node) actorsLocked() *actor.System {
	if n.system == nil {
		n.system = actor.NewSystem(n.cfg.Logger)
	}
	return n.system
}

func (n *Node) errClosed() error { return fmt.Errorf("%w: node %q is closed", ErrUnreachable, n.name) }

// Close stops the processes that [Node.Spawn] has started, closes the
// transport, and ends all calls of the node with [ErrUnreachable]. Processes
// that are children of other supervisors cannot be called any more, but are not
// stopped. Close may be called twice. A function of a process must not call
// Close or [Node.Stop] for itself: they would wait for its end.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	tree, books := n.tree, slices.Collect(maps.Values(n.rulebooks))
	for _, b := range books {
		b.end(closing{n.errClosed()})
	}
	n.mu.Unlock()
	if tree != nil {
		tree.Stop()
	}
	for _, b := range books {
		<-b.done
	}
	var err error
	if n.cfg.Transport != nil {
		err = n.cfg.Transport.Close()
	}
	n.mu.Lock()
	processes, peers, self := slices.Collect(maps.Values(n.processes)), slices.Collect(maps.Values(n.peers)), n.self
	n.self = nil
	n.mu.Unlock()
	reason := n.errClosed()
	for _, p := range processes {
		n.leave(p, reason)
	}
	for _, p := range peers {
		n.lose(p, reason)
	}
	for w := range self {
		w.end(reason)
	}
	if err != nil {
		return fmt.Errorf("rpc: %w", err)
	}
	return nil
}

// lookup returns the process of a name.
func (n *Node) lookup(name string) (*Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.processes[name]; p != nil {
		return p, nil
	}
	if n.closed {
		return nil, n.errClosed()
	}
	return nil, fmt.Errorf("%w: %w %s", ErrUnreachable, errNoProcess, n.Address(name))
}

// enter makes a new incarnation the process of its name.
func (n *Node) enter(p *Process) error {
	n.mu.Lock()
	before, err := n.claimLocked(p.slot)
	if err == nil {
		p.incarnation = n.nextIncarnationLocked()
		n.processes[p.slot.name] = p
	}
	n.mu.Unlock()
	before.replaced()
	return err
}

// claimLocked frees the name of a slot for it, if no other has it. The
// incarnation that had it has no more to say, and the caller must call replaced
// for it, without the lock: its supervisor has given it up, and it may still be
// running.
func (n *Node) claimLocked(s *slot) (before *Process, err error) {
	before = n.processes[s.name]
	switch book := n.rulebooks[s.name]; {
	case n.closed:
		return nil, n.errClosed()
	case before != nil && before.slot != s && !before.isGivenUp(), book != nil && book.slot != s:
		return nil, supervisor.ErrAlreadyStarted
	}
	delete(n.processes, s.name)
	return before, nil
}

// leave removes an incarnation that has ended, or that others must regard as
// ended.
func (n *Node) leave(p *Process, reason error) {
	n.mu.Lock()
	if n.processes[p.slot.name] == p {
		delete(n.processes, p.slot.name)
	}
	n.mu.Unlock()
	p.disown(reason)
}

// nextLocked returns a new number.
func (n *Node) nextLocked() uint64 {
	n.last++
	return n.last
}

// nextIncarnation returns a new number of an incarnation.
func (n *Node) nextIncarnation() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextIncarnationLocked()
}

// nextIncarnationLocked returns the number of a new incarnation of a process.
// The numbers grow, also from one program to the next, as long as the clock
// does.
func (n *Node) nextIncarnationLocked() uint64 {
	n.incarnation = max(n.incarnation+1, uint64(time.Now().UnixNano()))
	return n.incarnation
}
