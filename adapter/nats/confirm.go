package nats

import (
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// A message counts as acknowledged when the server has confirmed its
// acknowledgement; then the tracker forgets the message. A confirmation of each
// acknowledgement would cost one more message each. The server handles the
// acknowledgements of one consumer in the order in which a connection sends
// them. So one confirmation covers all acknowledgements that were sent before
// it, and for each consumer one acknowledgement at a time asks for one.

// final is the last answer for a message: the message is done, or is a dead
// letter. The tracker keeps it until the server has confirmed it.
type final struct {
	d          *delivery
	text       string
	count      *uint64
	reconnects uint64 // of the connection, before the answer was sent
}

// lane has the last answers for the messages of one consumer.
type lane struct {
	asked []final       // answers that were sent; the last of them asks for the confirmation of all
	later []final       // answers that were sent after the last of asked
	token string        // the end of the subject to which the server sends the confirmation of asked
	since time.Time     // when the last of asked was sent
	slow  bool          // whether the last of asked was sent more than once
	pause time.Duration // the time without a confirmation after which it is sent again
}

// confirmer sends last answers, and sends them again until the server has
// confirmed them. One goroutine uses it.
type confirmer struct {
	t       *tracker
	inbox   string
	sub     *natsgo.Subscription
	replies chan *natsgo.Msg
	lanes   map[string]*lane
	tokens  map[string]*lane
	next    uint64 // the number of the last token
}

// confirmTime is how long the confirmer waits for a confirmation before it sends
// the answers again.
const confirmTime = time.Second

func newConfirmer(t *tracker) *confirmer {
	c := &confirmer{t: t, inbox: t.conn.NewInbox() + ".", replies: make(chan *natsgo.Msg, 1024), lanes: map[string]*lane{}, tokens: map[string]*lane{}}
	c.subscribe()
	return c
}

// subscribe subscribes to the confirmations, unless it has done so before.
// Without a connection the next call tries again.
func (c *confirmer) subscribe() {
	if c.sub == nil {
		c.sub, _ = c.t.conn.ChanSubscribe(c.inbox+"*", c.replies)
	}
}

// close ends the subscription.
func (c *confirmer) close() {
	if c.sub != nil {
		_ = c.sub.Unsubscribe()
	}
}

// send sends the last answer for a message. The answer is counted when the server
// has confirmed it.
func (c *confirmer) send(d *delivery, text string, count *uint64) {
	if c.t.sendsLast(d) {
		c.t.release(d, count)
		return
	}
	c.subscribe()
	f := final{d, text, count, c.t.conn.Stats().Reconnects}
	l := c.lanes[d.consumer]
	if l == nil {
		l = &lane{pause: confirmTime}
		c.lanes[d.consumer] = l
	}
	if len(l.asked) == 0 {
		l.asked = append(l.asked, f)
		c.ask(l)
		return
	}
	l.later = append(l.later, f)
	c.publish(f, "")
}

// ask sends the last answer of asked, also if it was sent before, with a request
// for a confirmation.
func (c *confirmer) ask(l *lane) {
	delete(c.tokens, l.token)
	c.next++
	l.token, l.since = strconv.FormatUint(c.next, 36), time.Now()
	c.tokens[l.token] = l
	c.publish(l.asked[len(l.asked)-1], c.inbox+l.token)
}

// publish sends an answer. If that fails the server does not confirm the answer,
// and look sends it again.
func (c *confirmer) publish(f final, reply string) {
	m := &natsgo.Msg{Subject: f.d.message().Reply, Reply: reply, Data: []byte(f.text)}
	_ = c.t.conn.PublishMsg(m)
}

// confirmed handles a confirmation.
func (c *confirmer) confirmed(m *natsgo.Msg) {
	l := c.tokens[strings.TrimPrefix(m.Subject, c.inbox)]
	if l == nil || m.Header.Get("Status") != "" { // the server has no such consumer
		return
	}
	if c.t.conn.Stats().Reconnects != l.asked[0].reconnects { // answers may have been lost with the connection
		c.again(l)
		return
	}
	for _, f := range l.asked {
		c.t.release(f.d, f.count)
	}
	if l.slow {
		c.t.log.Info("the server confirms acknowledgements again")
	}
	delete(c.tokens, l.token)
	l.asked, l.later = l.later, l.asked[:0]
	l.slow, l.pause = false, confirmTime
	if len(l.asked) > 0 {
		c.ask(l)
	}
}

// look sends the answers again that the server has not confirmed for too long, or
// with now all answers that it has not confirmed.
func (c *confirmer) look(now bool) {
	for consumer, l := range c.lanes {
		switch {
		case len(l.asked) == 0:
		case c.t.givesUp(consumer):
			c.giveUp(l)
		case !c.t.conn.IsConnected():
		case now:
			c.again(l)
		case time.Since(l.since) >= l.pause:
			if !l.slow {
				l.slow = true
				c.t.log.Warn("the server does not confirm acknowledgements; they are sent again, and the messages stay in flight",
					"messages", len(l.asked)+len(l.later), "for", time.Since(l.since).Round(time.Millisecond))
			}
			l.pause = min(2*l.pause, longestRetry)
			c.again(l)
		}
	}
}

// again sends all answers of a lane again. It drops the answers for messages of a
// stream that was removed.
func (c *confirmer) again(l *lane) {
	all := append(l.asked, l.later...)
	l.asked, l.later = nil, nil
	reconnects := c.t.conn.Stats().Reconnects
	c.subscribe()
	for _, f := range all {
		if f.d.isLost() {
			c.t.release(f.d, f.count)
			continue
		}
		f.reconnects = reconnects
		l.asked = append(l.asked, f)
	}
	for k, f := range l.asked {
		if k < len(l.asked)-1 {
			c.publish(f, "")
		}
	}
	if len(l.asked) > 0 {
		c.ask(l)
	}
}

// giveUp forgets the answers of a lane that the server has not confirmed: it may
// deliver their messages again.
func (c *confirmer) giveUp(l *lane) {
	all := append(l.asked, l.later...)
	c.t.log.Warn("the server has not confirmed acknowledgements before the inlet was closed; the messages may be delivered again",
		"messages", len(all))
	for _, f := range all {
		c.t.release(f.d, &c.t.n.GivenBack)
	}
	l.asked, l.later = nil, nil
}
