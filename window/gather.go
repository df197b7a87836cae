package window

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage"
)

// ErrNoTicket is the error of a command that comes to a [JoinTicket] and was
// submitted without a ticket.
var ErrNoTicket = errors.New("window: the command has no ticket: submit it with Ask or Call, or from a source with a checkpoint")

// JoinTicket makes a stage that collects the parts that were made from one
// command, and passes them on as one group. It needs no key: parts belong
// together if they have the same ticket, so the command was submitted with
// stage.Ask or stage.Call, or from a source with a source.Checkpoint. A part
// without a ticket fails with [ErrNoTicket].
//
//	prices := stage.FlatMap("ask all", askAll) // emits a question for each shop
//	offers := window.JoinTicket("offers", window.Parts[Offer]{Limit: time.Minute})
//
// Without Parts.Count and Parts.Whole a group is complete when its parts are
// all that is left of the command: all other commands made from it have ended,
// also in other branches of the pipeline. Parts of one ticket that are held
// back in two stages at the same time wait for each other until a time limit is
// over. If one of the command's other parts has failed, the group is passed on
// as [Short]. With Count or Whole a group is passed on as soon as that says
// that it is complete, and as Short if nothing more comes before. With
// Parts.Fail, the parts of a group that is not [Full] fail.
//
// Parts that an [Aggregate] has summed up, or that are in another window, have
// not ended before the result of that. A result that was made of commands of
// several tickets is a part of none of them: it is a group of its own.
//
// A group has the parts that have come to the stage, so one that a stage.Filter
// took out is not missing. A part that arrives after the time limit begins a
// new group.
func JoinTicket[C any](name string, parts Parts[C], opts ...stage.Option) *stage.Flow[C, Window[struct{}, []C]] {
	type ticket = *command.Ticket
	r := rules[ticket, []C, C]{
		key: ticketKey[C], add: collect[C], drop: remove[C], whole: parts.Whole, traits: traits{fail: parts.Fail, gathers: true},
		bounds: Bounds[C]{Count: parts.Count, Time: parts.Limit, Held: parts.Held},
	}
	return flow(name, r, checkTicketParts(parts), opts, func(w Window[ticket, []C]) Window[struct{}, []C] {
		return Window[struct{}, []C]{Value: w.Value, Count: w.Count, Opened: w.Opened, Why: w.Why}
	})
}

func ticketKey[C any](ctx context.Context, _ C) (*command.Ticket, error) {
	if t := originOf(ctx).Ticket(); t != nil {
		return t, nil
	}
	return nil, ErrNoTicket
}

// originOf returns the origin of the command that is handled with a context;
// nil if it has none.
func originOf(ctx context.Context) *command.Origin {
	origin, _ := ctx.Value(command.OriginKey{}).(*command.Origin)
	return origin
}

// settling is for how long a drain waits for the end of commands that are
// booked as ended: their tickets learn of it a moment later.
const settling = 10 * time.Millisecond

// ticket returns the ticket of a window.
func (s *collector[K, V, C]) ticket(w *window[K, V]) *command.Ticket {
	return any(w.Key).(*command.Ticket)
}

// watch has the collector called when commands of a window's ticket end. It is
// called before a command is added: the command is on its way.
func (s *collector[K, V, C]) watch(w *window[K, V]) {
	if s.gathers {
		s.ticket(w).Tell(s)
	}
}

// Left closes the window of a ticket if nothing else of that is on its way.
func (s *collector[K, V, C]) Left(t *command.Ticket) {
	s.mu.Lock()
	defer s.unlock()
	if w := s.open[any(t).(K)]; w != nil && !w.busy {
		s.completeLocked(w)
	}
}

// completeLocked closes a window that is not busy if nothing else of its ticket
// is on its way. A held command cannot end meanwhile, and only a command that
// is on its way makes others, so the window stays complete.
func (s *collector[K, V, C]) completeLocked(w *window[K, V]) {
	if !s.gathers || len(w.places) == 0 || s.ticket(w).Pending() > len(w.places) {
		return
	}
	if s.ticket(w).HasFailed() || s.whole != nil || s.bounds.Count > 0 {
		s.closeLocked(w, Short)
	} else {
		s.closeLocked(w, Full)
	}
}

// releaseLocked closes a window in a drain. One of a ticket that has other
// commands is closed a moment later.
func (s *collector[K, V, C]) releaseLocked(w *window[K, V]) {
	switch {
	case !s.gathers || w.busy:
		s.closeLocked(w, Early)
	case w.released.IsZero():
		w.released = time.Now().Add(settling)
		w.timer.Reset(settling)
	}
}
