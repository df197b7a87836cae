package nats

import (
	"strconv"
	"sync"

	natsgo "github.com/nats-io/nats.go"
)

// mailbox gives out subjects of core NATS, and calls a function for each message that comes to one of them. It has one subscription, from
// when it is used first until the connection is closed.
type mailbox struct {
	nc *natsgo.Conn

	mu     sync.Mutex // guards the rest
	prefix string     // of the subjects; empty before the first
	given  uint64
	of     map[string]func(m *natsgo.Msg)
}

// open returns a subject. The function is called for one message after the other, and must not wait.
func (b *mailbox) open(receive func(m *natsgo.Msg)) (subject string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prefix == "" {
		prefix := b.nc.NewInbox() + "."
		sub, err := b.nc.Subscribe(prefix+"*", b.deliver)
		if err != nil {
			return "", err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil { // there is an answer for each call at most
			return "", err
		}
		b.prefix, b.of = prefix, map[string]func(m *natsgo.Msg){}
	}
	b.given++
	subject = b.prefix + strconv.FormatUint(b.given, 36)
	b.of[subject] = receive
	return subject, nil
}

// close ends the use of a subject. The function may be running.
func (b *mailbox) close(subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, subject)
}

// deliver calls the function of a message's subject. A question to one that is not used any more is answered here.
func (b *mailbox) deliver(m *natsgo.Msg) {
	b.mu.Lock()
	receive := b.of[m.Subject]
	b.mu.Unlock()
	switch {
	case receive != nil:
		receive(m)
	case m.Reply != "":
		_ = m.Respond([]byte{saysLeaves})
	}
}
