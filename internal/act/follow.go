package act

// Follow wakes another mailbox, as [Mailbox.Wake] does, but as soon as this one has come to rest, and
// on the same goroutine. If this one has anything else to do, the other is woken before
// it does so: it never waits for a message to be handled. Only an actor's handler may call it, of
// the actor's own mailbox, as the last thing it does; of several the last follows.
//
// What a worker hands on is often all that there is to do. To start a goroutine for it, and
// perhaps rouse another processor, takes longer than most handlers. The chain is a loop: each
// mailbox has come to rest before the next begins, so that whatever a handler does
// there, block, panic or end the goroutine, concerns its own actor only, and the stack does not
// grow, however long the chain.
func (m *Mailbox) Follow(next *Mailbox) {
	m.release()
	if m.paced {
		next.Wake() // who steps wants to choose
		return
	}
	m.follower = next
}

// release wakes who was to follow without waiting any longer.
func (m *Mailbox) release() {
	if next := m.follower; next != nil {
		m.follower = nil
		next.Wake()
	}
}
