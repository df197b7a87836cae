package nats

import (
	"slices"
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
// it. The confirmer asks for one with the first acknowledgement after a pause,
// and with each of a number of them meanwhile: messages are forgotten while the
// server handles the acknowledgements of later ones.

// final is the last answer for a message: the message is done, or is a dead
// letter. The tracker keeps it until the server has confirmed it.
type final struct {
	d          *delivery
	text       string
	count      *uint64
	reconnects uint64 // of the connection, before the answer was sent
}

// lane has the last answers for the messages of one consumer that the server
// has not confirmed.
type lane struct {
	sent     []final // in the order in which they were sent
	released uint64  // how many answers were removed from sent
	asks     []ask   // the confirmations that the server was asked for, the oldest first
	asked    time.Time
	since    time.Time     // when the first of sent was sent, or the server confirmed another one after that
	slow     bool          // whether the first of sent was sent more than once
	pause    time.Duration // the time without a confirmation after which all are sent again
}

// ask is a request for a confirmation.
type ask struct {
	token string // the end of the subject to which the server sends the confirmation
	upTo  uint64 // how many answers of the lane were sent with the last one that it covers
}

// unasked returns how many answers no request for a confirmation covers.
func (l *lane) unasked() int {
	if len(l.asks) == 0 {
		return len(l.sent)
	}
	return int(l.released + uint64(len(l.sent)) - l.asks[len(l.asks)-1].upTo)
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

	rest  *time.Timer // fires when answers that no request covers have waited
	waits bool        // rest was started, and has not fired
}

// When the confirmer asks for confirmations.
const (
	askPause    = time.Millisecond // between two requests, unless there are askEvery answers
	askEvery    = 64               // answers of which at least one has a request
	askRest     = 2 * askPause     // how long the last answers may be without a request
	confirmTime = time.Second      // without a confirmation for so long all answers are sent again
)

func newConfirmer(t *tracker) *confirmer {
	c := &confirmer{
		t: t, inbox: t.conn.NewInbox() + ".", replies: make(chan *natsgo.Msg, 1024),
		lanes: map[string]*lane{}, tokens: map[string]*lane{}, rest: time.NewTimer(time.Hour),
	}
	c.rest.Stop()
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
	c.rest.Stop()
	if c.sub != nil {
		_ = c.sub.Unsubscribe()
	}
}

// send sends the last answer for a message. The answer is counted when the
// server has confirmed it.
func (c *confirmer) send(d *delivery, text string, count *uint64) {
	if c.t.sendsLast(d) {
		c.t.release(d, count)
		return
	}
	c.subscribe()
	l := c.lanes[d.consumer]
	if l == nil {
		l = &lane{pause: confirmTime}
		c.lanes[d.consumer] = l
	}
	now := time.Now()
	if len(l.sent) == 0 {
		l.since = now
	}
	f := final{d, text, count, c.t.conn.Stats().Reconnects}
	l.sent = append(l.sent, f)
	if now.Sub(l.asked) >= askPause || l.unasked() >= askEvery {
		c.ask(l)
		return
	}
	c.publish(f, "")
	c.wait()
}

// ask sends the last answer, also if it was sent before, with a request for a
// confirmation.
func (c *confirmer) ask(l *lane) {
	c.next++
	a := ask{strconv.FormatUint(c.next, 36), l.released + uint64(len(l.sent))}
	l.asks, l.asked = append(l.asks, a), time.Now()
	c.tokens[a.token] = l
	c.publish(l.sent[len(l.sent)-1], c.inbox+a.token)
}

// wait starts the timer for the answers that no request covers.
func (c *confirmer) wait() {
	if !c.waits {
		c.waits = true
		c.rest.Reset(askRest)
	}
}

// askForRest asks for confirmations of the answers that no request covers,
// unless there was a request just now: then the next answer may have another
// one.
func (c *confirmer) askForRest() {
	c.waits = false
	for _, l := range c.lanes {
		switch {
		case l.unasked() == 0:
		case time.Since(l.asked) >= askPause:
			c.ask(l)
		default:
			c.wait()
		}
	}
}

// publish sends an answer. If that fails the server does not confirm the
// answer, and look sends it again.
func (c *confirmer) publish(f final, reply string) {
	m := &natsgo.Msg{Subject: f.d.message().Reply, Reply: reply, Data: []byte(f.text)}
	_ = c.t.conn.PublishMsg(m)
}

// confirmed handles a confirmation.
func (c *confirmer) confirmed(m *natsgo.Msg) {
	token := strings.TrimPrefix(m.Subject, c.inbox)
	l := c.tokens[token]
	if l == nil || m.Header.Get("Status") != "" { // the server has no such consumer
		return
	}
	if c.t.conn.Stats().Reconnects != l.sent[0].reconnects { // answers may have been lost with the connection
		c.again(l)
		return
	}
	k := slices.IndexFunc(l.asks, func(a ask) bool { return a.token == token })
	upTo := l.asks[k].upTo
	c.forget(l, k+1)
	n := int(upTo - l.released)
	for _, f := range l.sent[:n] {
		c.t.release(f.d, f.count)
	}
	l.sent, l.released = slices.Delete(l.sent, 0, n), upTo
	if l.slow {
		c.t.log.Info("the server confirms acknowledgements again")
	}
	l.slow, l.pause, l.since = false, confirmTime, time.Now()
}

// forget forgets the first n requests of a lane.
func (c *confirmer) forget(l *lane, n int) {
	for _, a := range l.asks[:n] {
		delete(c.tokens, a.token)
	}
	l.asks = slices.Delete(l.asks, 0, n)
}

// look sends the answers again that the server has not confirmed for too long,
// or with now all answers that it has not confirmed.
func (c *confirmer) look(now bool) {
	for consumer, l := range c.lanes {
		switch {
		case len(l.sent) == 0:
		case c.t.givesUp(consumer):
			c.giveUp(l)
		case !c.t.conn.IsConnected():
		case now:
			c.again(l)
		case time.Since(l.since) >= l.pause:
			if !l.slow {
				l.slow = true
				c.t.log.Warn("the server does not confirm acknowledgements; they are sent again, and the messages stay in flight",
					"messages", len(l.sent), "for", time.Since(l.since).Round(time.Millisecond))
			}
			l.pause = min(2*l.pause, longestRetry)
			c.again(l)
		}
	}
}

// again sends all answers of a lane again. It drops the answers for messages of
// a stream that was removed.
func (c *confirmer) again(l *lane) {
	c.subscribe()
	all := l.sent
	c.clear(l)
	reconnects := c.t.conn.Stats().Reconnects
	for _, f := range all {
		if f.d.isLost() {
			c.t.release(f.d, f.count)
			continue
		}
		f.reconnects = reconnects
		l.sent = append(l.sent, f)
	}
	if len(l.sent) == 0 {
		return
	}
	for _, f := range l.sent[:len(l.sent)-1] {
		c.publish(f, "")
	}
	l.since = time.Now()
	c.ask(l)
}

// giveUp forgets the answers of a lane that the server has not confirmed: it
// may deliver their messages again.
func (c *confirmer) giveUp(l *lane) {
	c.t.log.Warn("the server has not confirmed acknowledgements before the inlet was closed; the messages may be delivered again",
		"messages", len(l.sent))
	for _, f := range l.sent {
		c.t.release(f.d, &c.t.n.GivenBack)
	}
	c.clear(l)
}

// clear removes all answers and requests of a lane.
func (c *confirmer) clear(l *lane) {
	c.forget(l, len(l.asks))
	l.released += uint64(len(l.sent))
	l.sent = nil
}
