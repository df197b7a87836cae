// Package actor is the only package that imports protoactor. It uses the parts
// that hold up under test (processes with a PID, the registry, parents and
// children, watch, plug-in mailboxes) and adds what a pipeline needs: a mailbox
// that takes work from a shared queue, and processes without an actor.
//
// These parts of protoactor are never used, because they lose messages, spin or
// cannot be stopped: bounded mailboxes, routers, the built-in metrics, stash,
// guardians, shared futures, ActorSystem.Shutdown and the built-in strategies.
// An actor that fails is never restarted in place either: its supervisor stops
// it and starts a new one under a new name. So an incarnation has one straight
// life, and no Stop can cross a Restart.
package actor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"

	"github.com/golda-dev/golda/internal/goid"
)

// The names of protoactor that the project uses.
type (
	// System runs actors.
	System = proto.ActorSystem
	// PID names a process.
	PID = proto.PID
	// Context is an actor's view of the system while it handles a message.
	Context = proto.Context
	// Actor handles messages one at a time.
	Actor = proto.Actor
	// Supervisor is the interface of a parent for a failure handler.
	Supervisor = proto.Supervisor
	// RestartStatistics comes with a failure; the project keeps its own.
	RestartStatistics = proto.RestartStatistics
	// Envelope carries a message with its sender.
	Envelope = proto.MessageEnvelope
	// Started is an actor's first message.
	Started = proto.Started
	// Stopping is an actor's last message except for the ends of its children.
	Stopping = proto.Stopping
	// Stopped is an actor's last message.
	Stopped = proto.Stopped
	// Terminated notifies a parent that a child has ended.
	Terminated = proto.Terminated
)

// NewSystem returns a system that logs only warnings and worse. The project
// itself reports the events of its actors.
func NewSystem(log *slog.Logger) *System {
	s := proto.NewActorSystem(
		proto.WithLoggerFactory(func(*proto.ActorSystem) *slog.Logger { return Quiet(log) }),
		// The throttle of the log keeps a goroutine for this long.
		proto.WithDeadLetterThrottleInterval(10*time.Millisecond),
	)
	thin(s.ProcessRegistry)
	return s
}

// shared is the system of the pipelines that were given none.
var shared = sync.OnceValue(func() *System { return NewSystem(slog.New(slog.DiscardHandler)) })

// Shared returns the system of the pipelines that were given none: a new system
// takes 67,000 allocations and some 5 ms, nearly all of it for a table of
// processes that fits a million of them. Make each name in it unique; see
// [Unique]. In a bubble of testing/synctest it returns a new system, because no
// goroutine outside may serve its actors.
//
// It logs nothing: the project itself reports the events of its actors.
func Shared() *System {
	if goid.InBubble() {
		return NewSystem(slog.New(slog.DiscardHandler))
	}
	return shared()
}

// buckets is how many of its registry's 1,024 buckets a system keeps.
const buckets = 8

// thin makes the registry of a new system smaller. Each bucket is 32 maps with
// locks: all of them take 2.8 MB when they are empty, and each of ten thousand
// actors would have a map to itself, of 290 bytes. In 256 maps an actor takes
// 60 bytes. Only spawning, ending and sending by name take these locks: a PID
// that was used once knows its process.
func thin(r *proto.ProcessRegistryValue) {
	r.LocalPIDs.LocalPIDs = slices.Clone(r.LocalPIDs.LocalPIDs[:buckets])
}

// Quiet returns a logger that logs only warnings and worse.
func Quiet(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

func (w warnings) WithAttrs(as []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(as)} }

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// Spawner starts actors: a system's root, or the context of a parent.
type Spawner interface {
	SpawnNamed(props *proto.Props, name string) (*PID, error)
}

// Spawn starts an actor as a child of the spawner, or as a root. Its mailbox is
// box. The name must be new for each incarnation: a stuck incarnation that ends
// late removes its name from the registry, even if another actor has it by
// then.
func Spawn(by Spawner, name string, box *Mailbox, make func() Actor) (*PID, error) {
	return by.SpawnNamed(proto.PropsFromProducer(func() Actor { return shielded(make()) },
		proto.WithMailbox(func() proto.Mailbox { return box })), name)
}

// Unique returns a name that no other process of the system has had.
func Unique(s *System, name string) string { return name + s.ProcessRegistry.NextId() }

// Local returns the PID of a process of this system by its name.
func Local(s *System, name string) *PID { return s.NewLocalPID(name) }

// Stop asks an actor to stop, if it still exists. Sending to the PID of one
// that has ended would leave a dead letter, and that a goroutine for the log's
// throttle.
func Stop(s *System, pid *PID) {
	if p, ok := s.ProcessRegistry.GetLocal(pid.Id); ok {
		p.Stop(pid)
	}
}

// Tell sends a message to an actor, if it still exists, as [Stop] does.
func Tell(s *System, pid *PID, message any) {
	if p, ok := s.ProcessRegistry.GetLocal(pid.Id); ok {
		p.SendUserMessage(pid, message)
	}
}

// Abandon makes a parent forget a child that does not end: the parent is
// notified that the child has terminated, and the child's name is free. The
// child's goroutine may continue, but its parent no longer listens to it.
func Abandon(s *System, parent, child *PID) {
	s.ProcessRegistry.Remove(child)
	if p, ok := s.ProcessRegistry.GetLocal(parent.Id); ok {
		p.SendSystemMessage(parent, &proto.Terminated{Who: child})
	}
}

// Has reports whether an actor has neither ended nor been abandoned. When its
// parent hears of either it reports false.
func Has(s *System, pid *PID) bool {
	_, ok := s.ProcessRegistry.GetLocal(pid.Id)
	return ok
}

// Fail notifies the parent of the actor that ctx belongs to that the actor has
// failed. The actor's mailbox is suspended; the parent decides.
func Fail(ctx Context, reason error) { ctx.(Supervisor).EscalateFailure(reason, nil) }
