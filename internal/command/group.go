package command

// Group has the tickets of commands that were made into one result. The tickets
// wait for the end of that result, and get its error, although the commands
// themselves may have ended before. A zero Group is empty. It is not for
// several goroutines at the same time.
//
// A group holds no command: a ticket costs one word, and one count within it.
type Group struct {
	tickets []*Ticket
	unheard bool // a command of the group has no ticket that is heard, so a failure of the result leaves a letter
	once    bool // a command of the group does not come again if a hard stop ends it, or two come from different pipelines
	again   any  // the pipeline whose checkpoint has commands of the group; nil if none has
}

// Add has the ticket of a command, if it has one, wait for the result. First is
// the ticket of the command that the result travels with, and waits in any
// case. Add is called before the command has ended. If the command has ended
// nevertheless, because its worker was given up, its ticket does not wait.
func (g *Group) Add(of *Origin, first *Ticket) {
	g.noteSource(of)
	switch t, n := of.Ticket(), len(g.tickets); {
	case t == nil:
		g.unheard = true
		return
	case t == first || n > 0 && g.tickets[n-1] == t:
		return
	default:
		g.unheard = g.unheard || t.watches
		if t.retain() {
			g.tickets = append(g.tickets, t)
		}
	}
}

// Take moves the tickets of another group to this one. The other group is empty
// afterwards.
func (g *Group) Take(of *Group) {
	g.tickets = append(g.tickets, of.tickets...)
	g.unheard = g.unheard || of.unheard
	g.once = g.once || of.once
	g.noteAgain(of.again)
	*of = Group{}
}

// Apart returns an origin for a command that the command of o emits, and whose
// end is learned. It has the values of o, and does not end with the context or
// the deadline of the caller. The ticket of o waits for it, and gets its error.
// Ended is called at its end with its error, nil if there is none, whatever
// becomes of it: also if it is not sent after all. Apart may only be called
// while the command of o is on its way, and the origin is for one emission.
func (o *Origin) Apart(ended func(err error)) *Origin {
	own := o.Ticket()
	own.Join()
	w := &whole{first: own, child: true}
	w.noteSource(o)
	w.Ticket = Ticket{watches: own == nil || own.watches, ends: true, of: w, then: func(_ any, err error) {
		ended(err)
		own.Settle(true, nil, err)
	}}
	w.origin = Origin{ticket: &w.Ticket, ctx: o.Detached().Context()}
	return &w.origin // nothing is pending: the emission joins
}

// noteSource notes where a command of the group comes again from.
func (g *Group) noteSource(of *Origin) {
	switch t := of.Ticket(); {
	case g.once:
	case t != nil && t.of != nil:
		g.once = t.of.once
		g.noteAgain(t.of.again)
	case t.hasSource():
	default:
		again := of.Value(AgainKey{})
		g.once = again == nil
		g.noteAgain(again)
	}
}

// noteAgain notes a pipeline whose checkpoint has a command of the group.
func (g *Group) noteAgain(pipeline any) {
	g.once = g.once || pipeline != nil && g.again != nil && g.again != pipeline
	if g.again == nil {
		g.again = pipeline
	}
}

// hasSource reports whether the source of the ticket's command has it again in
// the next process.
func (t *Ticket) hasSource() bool { return t.Heard() || t != nil && t.repeats }

// IsEmpty reports whether no ticket was added.
func (g *Group) IsEmpty() bool { return len(g.tickets) == 0 }

// End has the tickets wait no longer. They get the error, or nil. The group is
// empty afterwards.
func (g *Group) End(err error) {
	tickets := g.tickets
	*g = Group{}
	settle(tickets, err)
}

func settle(tickets []*Ticket, err error) {
	for _, t := range tickets {
		t.Settle(true, nil, err)
	}
}

// Origin returns the origin of the result, which travels with the command of an
// envelope. It has the values of that command and does not end with the context
// of its caller. If the group has other tickets, all of them and the command's
// own learn of the end of the result; then the group must not be ended. Only if
// the result does not leave after all, the origin is discarded and the group
// ended.
func (g *Group) Origin(first *Envelope) *Origin {
	own, values := first.Ticket(), first.From.Detached()
	var alone Group
	alone.noteSource(first.From)
	all := *g
	all.noteSource(first.From)
	misleads := all.once && !alone.once // the first command comes again, and another does not
	if len(g.tickets) == 0 && (!g.unheard || own == nil || own.watches) && !misleads {
		return values
	}
	w := &whole{Group: all, first: own, child: first.Child()}
	w.Ticket = Ticket{
		watches: g.unheard || own == nil || own.watches, ends: !own.WantsResult(), want: own.Wanted(), then: w.end, of: w,
	}
	w.Open()
	w.origin.ctx = values.Context()
	return &w.origin
}

// whole is the ticket of the result of a group. Its group does not change: a
// window may add a command of the ticket, and read the group, although the
// ticket has ended, because the worker of the command was given up.
type whole struct {
	Ticket
	Group

	first *Ticket // of the command that the result travels with; nil if there is none
	child bool    // that command was emitted
}

// end has all tickets learn of the end of the result.
func (w *whole) end(result any, err error) {
	w.first.Settle(w.child, result, err)
	settle(w.tickets, err)
}

// comesAgain reports whether the next process of a pipeline has all commands of
// the group again if a hard stop of the pipeline ends their result.
func (w *whole) comesAgain(pipeline any) bool {
	return !w.once && (w.again == nil || w.again == pipeline)
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
