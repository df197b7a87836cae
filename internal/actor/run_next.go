package actor

// RunNext wakes another mailbox, as [Mailbox.Wake] does, but on the same
// goroutine and as soon as this mailbox is empty. If this mailbox has anything
// else to do, it wakes the other one first, so that the other never waits for a
// message to be handled. Only an actor's handler may call RunNext, on the
// actor's own mailbox and as its last action. After several calls only the last
// mailbox is run next, and the others are woken.
//
// The commands that a worker forwards are often the only work that there is.
// Starting a goroutine for it, and perhaps waking another processor, takes
// longer than most handlers. The chain is a loop: each mailbox is empty before
// the next starts. So if a handler blocks, panics or ends the goroutine, that
// affects its own actor only, and the stack does not grow, however long the
// chain.
func (m *Mailbox) RunNext(next *Mailbox) {
	m.release()
	if m.paced {
		next.Wake() // a Pace chooses the order
		return
	}
	m.follower = next
}

// release wakes the follower without waiting any longer.
func (m *Mailbox) release() {
	if next := m.follower; next != nil {
		m.follower = nil
		next.Wake()
	}
}
