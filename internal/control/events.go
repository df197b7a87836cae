package control

import (
	"sync"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
)

// Event is a notification of the loop by the pipeline.
type Event struct {
	Kind  controller.EventKind
	Inbox *inbox.Inbox // nil if the event is not of a stage
	Pool  string
}

// eventQueue gathers events for the actor, each once until the actor has taken
// it. It sends the actor one message for all of them, and the next message not
// before a pause is over.
type eventQueue struct {
	send  func(any)     // sends the actor a message
	pause time.Duration // between two messages

	mu     sync.Mutex // guards all below
	queued map[Event]bool
	list   []Event
	sent   bool        // a message was sent, or the pause after it is not over
	next   *time.Timer // ends the pause; there is only one, because each timer that runs would send a message
}

// eventsReady informs the actor that there are events.
type eventsReady struct{ queue *eventQueue }

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has
// ended.
func (eventsReady) IgnoreDeadLetterLogging() {}

func (q *eventQueue) add(e Event) {
	q.mu.Lock()
	if !q.queued[e] {
		q.queued[e] = true
		q.list = append(q.list, e)
	}
	send := !q.sent
	q.sent = true
	q.mu.Unlock()
	if send {
		q.send(eventsReady{q})
	}
}

// take empties the queue, and starts the pause.
func (q *eventQueue) take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	clear(q.queued)
	if q.next != nil {
		q.next.Stop() // two messages were sent: an actor that starts is sent one, too
	}
	q.next = time.AfterFunc(q.pause, q.resend)
	return list
}

// resend ends the pause: it sends a message if events have arrived meanwhile.
func (q *eventQueue) resend() {
	q.mu.Lock()
	q.sent = len(q.list) > 0
	send := q.sent
	q.mu.Unlock()
	if send {
		q.send(eventsReady{q})
	}
}
