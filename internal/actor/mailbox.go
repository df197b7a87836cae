package actor

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	proto "github.com/asynkron/protoactor-go/actor"

	"github.com/golda-dev/golda/internal/bigstack"
	"github.com/golda-dev/golda/internal/plain"
)

// Turn is the user message that a mailbox delivers when its feed is ready.
type Turn struct{}

var turn = &Turn{}

// Feed is a source of work outside a mailbox: the feed of a worker's mailbox is
// the queue of its stage.
type Feed interface {
	// Ready reports whether the actor should be given a [Turn].
	Ready() bool
	// Len returns the length of the queue, which counts as the length of the
	// mailbox.
	Len() int
}

// Mailbox is the mailbox of the project's actors. It delivers system messages
// first, then messages to the actor itself, then turns for the feed.
//
// Unlike protoactor's own mailbox, it may be written to before it is ready,
// survives runtime.Goexit in a handler, and delivers nothing between Stop and
// the end except the ends of children.
type Mailbox struct {
	feed    Feed
	system  letters
	own     letters
	running atomic.Bool
	ready   atomic.Bool // the invoker is set

	suspended, stopped bool // only accessed by the goroutine that runs the mailbox
	paced              bool // a Pace decides when it handles messages; otherwise it runs as fast as it can
	invoker            proto.MessageInvoker
	follower           *Mailbox // see RunNext
	loop               func()   // process as a value; making it at each wake would allocate
}

// NewMailbox returns a mailbox; feed may be nil.
func NewMailbox(feed Feed) *Mailbox {
	m := &Mailbox{feed: feed}
	m.loop = m.process
	return m
}

// PostUserMessage queues a message to the actor itself. It drops a nil message,
// on which protoactor's mailbox would spin for ever.
func (m *Mailbox) PostUserMessage(message any) {
	if message == nil {
		return
	}
	m.own.post(message)
	m.Wake()
}

// PostSystemMessage queues a message that is delivered before all others.
func (m *Mailbox) PostSystemMessage(message any) {
	m.system.post(message)
	m.Wake()
}

// RegisterHandlers is called once, by the spawner. The dispatcher is not kept:
// the project has only one kind, which gives each run a goroutine.
func (m *Mailbox) RegisterHandlers(invoker proto.MessageInvoker, _ proto.Dispatcher) {
	m.invoker = invoker
	if ctx, ok := invoker.(Context); ok {
		m.paced = paceOf(ctx.ActorSystem()) != nil
	}
	m.ready.Store(true)
}

// Start delivers messages that were posted before the mailbox was ready.
func (m *Mailbox) Start() { m.Wake() }

// UserMessageCount returns the length of the feed's queue plus the number of
// messages to the actor itself.
func (m *Mailbox) UserMessageCount() int {
	n := m.own.len()
	if m.feed != nil {
		n += m.feed.Len()
	}
	return n
}

// Pressing reports whether a system message waits. An actor checks it between
// two commands of a long turn.
func (m *Mailbox) Pressing() bool { return m.system.len() > 0 }

// Wake runs the mailbox if it does not run already. It does not block.
func (m *Mailbox) Wake() {
	if m.claim() {
		m.schedule()
	}
}

// claim reports whether the caller may run the mailbox: it is ready and no
// other goroutine runs it.
func (m *Mailbox) claim() bool { return m.ready.Load() && m.running.CompareAndSwap(false, true) }

// schedule starts the mailbox, or notifies the Pace if there is one.
func (m *Mailbox) schedule() {
	if m.paced {
		paceOf(m.invoker.(Context).ActorSystem()).Ready(m)
		return
	}
	go m.loop()
}

// process runs the mailbox until it is empty, and then the mailboxes that are
// run next.
func (m *Mailbox) process() {
	bigstack.Grow()
	for m != nil {
		m = m.empty()
	}
}

// empty runs the mailbox until it is empty, and returns the mailbox that the
// caller must run next, or nil if there is none. If a handler ends its
// goroutine (runtime.Goexit), another goroutine takes over.
func (m *Mailbox) empty() (next *Mailbox) {
	exited := true
	defer func() {
		if exited {
			m.running.Store(false)
			m.Wake()
		}
	}()
	for {
		m.run()
		next, m.follower = m.follower, nil
		suspended, stopped := m.suspended, m.stopped
		m.running.Store(false)
		// A message may have arrived after the last check and before running
		// was set to false; its sender could not schedule the mailbox.
		if !m.pending(suspended, stopped) || !m.running.CompareAndSwap(false, true) {
			break
		}
		if m.paced {
			m.schedule()
			break
		}
		if next != nil {
			next.Wake()
		}
	}
	exited = false
	if next == nil || !next.claim() {
		return nil
	}
	return next
}

// pending reports whether there is a message or a turn to deliver.
func (m *Mailbox) pending(suspended, stopped bool) bool {
	switch {
	case m.system.len() > 0:
		return true
	case suspended || stopped:
		return false
	default:
		return m.own.len() > 0 || m.feed != nil && m.feed.Ready()
	}
}

// Panic is the reason with which an actor fails that panicked.
type Panic struct { //nolint:errname // it is not only an error
	Value any    // the argument of panic
	Stack []byte // where it happened
}

// Error returns the value as text, without the stack.
func (p *Panic) Error() string { return "panic: " + plain.Text(p.Value) }

// run delivers messages until there are none. A panic that reaches run does not
// come from a user's handler, because the worker recovers those. It must not
// end the process either: it fails the actor, with a [*Panic].
func (m *Mailbox) run() {
	var message any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(&Panic{Value: r, Stack: debug.Stack()}, message)
		}
	}()
	for {
		if !m.deliver(&message) || m.paced {
			return
		}
	}
}

// deliver delivers one message and stores it in message. It reports false if
// there is none.
func (m *Mailbox) deliver(message *any) bool {
	if *message = m.system.take(); *message != nil {
		m.release()
		m.obey(*message)
		return true
	}
	if m.suspended || m.stopped {
		return false
	}
	if *message = m.own.take(); *message == nil {
		if m.feed == nil || !m.feed.Ready() {
			return false
		}
		*message = turn
	}
	m.release()
	m.invoker.InvokeUserMessage(*message)
	return true
}

// obey handles a system message. After Stop only the ends of children are
// delivered. A Restart is ignored: the project never sends one.
func (m *Mailbox) obey(message any) {
	switch message.(type) {
	case *proto.SuspendMailbox:
		m.suspended = true
	case *proto.ResumeMailbox:
		m.suspended = false
	case *proto.Restart:
	case *proto.Stop:
		m.stopped = true
		m.invoker.InvokeSystemMessage(message)
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}

// letters is a small queue of rare messages. It is a list because every idle
// stage has two mailboxes with two of these, and a slice is larger.
type letters struct {
	mu          sync.Mutex // guards first and last
	first, last *letter
	many        atomic.Int32 // the length, readable without the lock
}

type letter struct {
	message any
	next    *letter
}

func (l *letters) post(message any) {
	fresh := &letter{message: message}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.first = fresh
	} else {
		l.last.next = fresh
	}
	l.last = fresh
	l.many.Add(1)
}

func (l *letters) take() any {
	if l.len() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	message := l.first.message
	if l.first = l.first.next; l.first == nil {
		l.last = nil
	}
	l.many.Add(-1)
	return message
}

func (l *letters) len() int { return int(l.many.Load()) }
