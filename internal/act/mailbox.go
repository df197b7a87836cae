package act

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/golda-dev/golda/internal/plain"
)

// Turn is the user message that a mailbox delivers when its feed is ready.
type Turn struct{}

var turn = &Turn{}

// Feed is where a mailbox takes its work from when it is not its own: a worker's
// is the queue of its stage.
type Feed interface {
	// Ready reports whether the actor should be given a [Turn].
	Ready() bool
	// Len is the length of the queue, which is the length of the mailbox.
	Len() int
}

// Mailbox is the mailbox of the house's actors. System messages come first,
// then messages to the actor itself, then turns at the feed.
//
// It differs from protoactor's own in that it may be written to before it is
// ready, survives runtime.Goexit in a handler, and gives nothing out between
// Stop and the end.
type Mailbox struct {
	feed    Feed
	system  letters
	own     letters
	running atomic.Bool
	ready   atomic.Bool // the invoker is set

	suspended, stopped bool // only touched by the goroutine that runs the mailbox
	paced              bool // somebody decides when it handles messages, else it is as fast as it can
	invoker            actor.MessageInvoker
	follower           *Mailbox // see Follow
	loop               func()   // process, made a value once: each wake would make another
}

// NewMailbox returns a mailbox; feed may be nil.
func NewMailbox(feed Feed) *Mailbox {
	m := &Mailbox{feed: feed}
	m.loop = m.process
	return m
}

// PostUserMessage queues a message to the actor itself. A nil message, which
// protoactor's mailbox would spin on for ever, is dropped.
func (m *Mailbox) PostUserMessage(message any) {
	if message == nil {
		return
	}
	m.own.post(message)
	m.Wake()
}

// PostSystemMessage queues a message that comes before all others.
func (m *Mailbox) PostSystemMessage(message any) {
	m.system.post(message)
	m.Wake()
}

// RegisterHandlers is called once, by the spawner. The house has but one kind of dispatcher, which
// gives each run a goroutine; so it is not kept.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
	if ctx, ok := invoker.(Context); ok {
		m.paced = paceOf(ctx.ActorSystem()) != nil
	}
	m.ready.Store(true)
}

// Start looks after what was posted before the mailbox was ready.
func (m *Mailbox) Start() { m.Wake() }

// UserMessageCount is the length of the queue behind the mailbox, and of what
// was sent to the actor itself.
func (m *Mailbox) UserMessageCount() int {
	n := m.own.len()
	if m.feed != nil {
		n += m.feed.Len()
	}
	return n
}

// Pressing reports whether a system message waits. An actor in a long turn
// looks at it between two pieces of work.
func (m *Mailbox) Pressing() bool { return m.system.len() > 0 }

// Wake runs the mailbox if it does not run already. It does not block.
func (m *Mailbox) Wake() {
	if m.claim() {
		m.schedule()
	}
}

// claim reports whether the mailbox is now the caller's to run: nobody else runs it.
func (m *Mailbox) claim() bool { return m.ready.Load() && m.running.CompareAndSwap(false, true) }

// schedule has the mailbox run, or, if somebody sets its pace, tells him.
func (m *Mailbox) schedule() {
	if m.paced {
		paceOf(m.invoker.(Context).ActorSystem()).Ready(m)
		return
	}
	go m.loop()
}

// process runs the mailbox until it is empty, and then who follows it, if anybody does.
func (m *Mailbox) process() {
	roomy(false)
	for m != nil {
		m = m.empty()
	}
}

// empty runs the mailbox until it is empty, and returns the one that the caller is to run
// next, nil if there is none. If a handler ends its goroutine (runtime.Goexit) another
// one takes over.
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
		// A message may have come after the last look and before running
		// was false; whoever posted it could not schedule us.
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

// pending reports whether there is anything to do.
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
type Panic struct { //nolint:errname // what it is
	Value any    // what was given to panic
	Stack []byte // where
}

// Error tells what; the stack is apart.
func (p *Panic) Error() string { return "panic: " + plain.Text(p.Value) }

// run delivers messages until there are none. A panic that comes this far is
// none of a user's handler, whose worker has caught it, but it must not end
// the process either: it fails the actor, with a [*Panic].
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

// deliver delivers one message, which it tells. It reports false if there is none.
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

// obey follows a system message. After Stop nothing but the ends of children
// is delivered, and a Restart is not followed: nobody in the house sends one.
func (m *Mailbox) obey(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
	case *actor.Restart:
	case *actor.Stop:
		m.stopped = true
		m.invoker.InvokeSystemMessage(message)
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}

// letters is a small queue for what is seldom sent. It is a list: every idle stage has two mailboxes with two
// of these, and a slice is larger.
type letters struct {
	mu          sync.Mutex // guards first and last
	first, last *letter
	many        atomic.Int32 // the length, to be read without the lock
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
