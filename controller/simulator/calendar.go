package simulator

import "time"

// event is one change of the model at an instant of virtual time.
type event struct {
	at time.Duration
	// seq is the order of entry: it decides between events at the same instant.
	seq  uint64
	kind kind
	id   int32  // of its subject: a source, a command, a message or a process
	gen  uint32 // it is void if its subject has another one by then
}

type kind uint8

const (
	arrival      kind = iota // at a source
	published                // the server has a message
	delivered                // a message arrives at a process
	asks                     // a process asks for messages, if there are enough places now
	asked                    // the server hears that, with the number as the generation
	acknowledged             // the server hears that a message is done, with its key as the generation
	finished                 // a handler returns
	alarm                    // of a timer of an inbox
	gaveUp                   // a client waits no longer
	again                    // a client sends a message once more
	computed                 // the next handler that computes in a process returns
	tick                     // of the controller of a process
	beat                     // processes are measured
	poll                     // of the autoscaler
	started                  // a process is ready
	left                     // a process has ended all that it had
	loss                     // processes are killed
	redeliver                // a message of a process that was killed
	look                     // a point of the series
	warm                     // measuring begins
)

// before reports the order of two events.
func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// calendar is the events to come: a heap with four children for each parent. It
// is faster than one with two.
type calendar struct {
	events []event
	seq    uint64
}

// enter adds an event.
func (c *calendar) enter(e event) {
	c.seq++
	e.seq = c.seq
	c.events = append(c.events, e)
	h, i := c.events, len(c.events)-1
	for i > 0 && e.before(&h[(i-1)/4]) {
		h[i] = h[(i-1)/4]
		i = (i - 1) / 4
	}
	h[i] = e
}

// next takes the earliest event out.
func (c *calendar) next() event {
	h := c.events
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	c.events = h
	for i := 0; len(h) > 0; {
		least := 4*i + 1
		for child := least + 1; child < min(4*i+5, len(h)); child++ {
			if h[child].before(&h[least]) {
				least = child
			}
		}
		if least >= len(h) || last.before(&h[least]) {
			h[i] = last
			break
		}
		h[i] = h[least]
		i = least
	}
	return first
}
