package command

// Group has the tickets of commands that were made into one result. The tickets wait for the end of that result, and get its error,
// although the commands themselves may have ended before. A zero Group is empty. It is not for several goroutines at the same time.
//
// A group holds no command: a ticket costs one word, and one count within it.
type Group struct {
	tickets []*Ticket
	unheard bool // a command of the group has no ticket that is heard, so a failure of the result leaves a letter
}

// Add has the ticket of a command, which may be nil, wait for the result. First is the ticket of the command that the result travels
// with, and waits in any case. Add is called before the command has ended. If the command has ended nevertheless, because its worker was
// given up, its ticket does not wait.
func (g *Group) Add(t, first *Ticket) {
	switch n := len(g.tickets); {
	case t == nil:
		g.unheard = true
		return
	case t == first || n > 0 && g.tickets[n-1] == t:
		return
	}
	g.unheard = g.unheard || t.watches
	if t.retain() {
		g.tickets = append(g.tickets, t)
	}
}

// IsEmpty reports whether no ticket was added.
func (g *Group) IsEmpty() bool { return len(g.tickets) == 0 }

// End has the tickets wait no longer. They get the error, which may be nil. The group is empty afterwards.
func (g *Group) End(err error) {
	tickets := g.tickets
	*g = Group{}
	for _, t := range tickets {
		t.Settle(true, nil, err)
	}
}

// Origin returns the origin of the result, which travels with the command of an envelope. It has the values of that command and does not
// end with the context of its caller. If the group has other tickets, all of them and the command's own learn of the end of the
// result; then the group must not be ended. Only if the result does not leave after all, the origin is discarded and the group ended.
func (g *Group) Origin(first *Envelope) *Origin {
	own, values := first.Ticket(), first.From.Detached()
	if len(g.tickets) == 0 && (!g.unheard || own == nil || own.watches) {
		return values
	}
	w := &whole{Group: *g, first: own, child: first.Child()}
	w.Ticket = Ticket{
		watches: g.unheard || own == nil || own.watches, ends: !own.WantsResult(), want: own.Wanted(), then: w.end, of: w,
	}
	w.Open()
	w.origin.ctx = values.Context()
	return &w.origin
}

// whole is the ticket of the result of a group.
type whole struct {
	Ticket
	Group

	first *Ticket // of the command that the result travels with; nil if there is none
	child bool    // that command was emitted
}

// end has all tickets learn of the end of the result.
func (w *whole) end(result any, err error) {
	w.first.Settle(w.child, result, err)
	w.Group.End(err)
}

// Includes reports whether match returns true for the ticket, or for a ticket
// that waits for its end as part of a group.
func (t *Ticket) Includes(match func(*Ticket) bool) bool {
	if t == nil {
		return false
	}
	if match(t) || t.of == nil {
		return match(t)
	}
	if t.of.first.Includes(match) {
		return true
	}
	for _, member := range t.of.tickets {
		if member.Includes(match) {
			return true
		}
	}
	return false
}
