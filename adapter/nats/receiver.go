package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/feed"
)

// How a receiver asks the server.
const (
	pullTime     = 30 * time.Second       // how long a request waits in the server
	beatTime     = 3 * time.Second        // how often the server says that a request waits
	silence      = 7 * time.Second        // without such a sign the request is lost
	lookTime     = 100 * time.Millisecond // how often the connection is looked at
	smallPull    = 10 * time.Millisecond  // how often few messages are asked for
	pullBytes    = 8 << 20                // what a request is answered with at most, or a largest message: more may be too much for the connection
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
)

// receiver asks the server for as many messages as there are places, and hands
// them to the source.
type receiver struct {
	t          *tracker
	conn       *Conn
	consumer   string
	untilEmpty bool
	restore    func(ctx context.Context, consumer string) error
	part       bool           // of one partition, which has a consumer of its own
	most       int            // messages that are asked for at once
	ready      chan *delivery // not closed
	asker      func(inbox string) asker
	remains    func(jetstream.StreamState, *jetstream.ConsumerInfo) uint64 // messages that are not done

	isAway bool      // since it has received last
	made   time.Time // when the stream was made, as it was when the server was asked last
}

// newReceiver returns the receiver of an inlet. Restore is called when the
// server does not know the consumer.
func newReceiver(t *tracker, conn *Conn, untilEmpty bool, restore func(context.Context, string) error, ready chan *delivery) *receiver {
	r := &receiver{t: t, conn: conn, consumer: consumerName, untilEmpty: untilEmpty, restore: restore, most: t.most, ready: ready, remains: left}
	r.asker = r.single
	return r
}

// partAhead is how many messages of a partition are asked for at once. The
// server gives one, and the next one when that is answered.
const partAhead = 64

func newPartReceiver(t *tracker, conn *Conn, part int, restore func(context.Context, string) error, ready chan *delivery) *receiver {
	r := &receiver{t: t, conn: conn, consumer: consumerOf(part), part: true, restore: restore, most: partAhead, ready: ready, remains: left}
	r.asker = r.single
	return r
}

// newSharesReceiver returns the receiver of all partitions of an inlet that
// keys share.
func newSharesReceiver(t *tracker, conn *Conn, untilEmpty bool, restore func(context.Context, string) error, ready chan *delivery, w weights, atOnce int) *receiver {
	return &receiver{
		t: t, conn: conn, consumer: consumerOf(0), untilEmpty: untilEmpty, restore: restore, most: t.most + t.beyond, ready: ready,
		asker:   func(inbox string) asker { return newRounds(t, conn, inbox, w, atOnce) },
		remains: func(s jetstream.StreamState, _ *jetstream.ConsumerInfo) uint64 { return s.Msgs },
	}
}

var (
	errEmpty       = errors.New("the stream is empty")
	errSilent      = errors.New("the server is silent")
	errReconnected = errors.New("the connection was lost, and is back")
	errAnew        = errors.New("the stream was made anew")
)

// run receives until ctx ends, or the stream is empty and that is asked for, or
// the connection is closed. Away is called with the reason when the server is
// away, and with nil when it is back.
func (r *receiver) run(ctx context.Context, away func(error)) {
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		began, before := time.Now(), r.conn.nc.Stats().Reconnects
		err := r.session(ctx, away)
		if ctx.Err() != nil || errors.Is(err, errEmpty) {
			return
		}
		if errors.Is(err, errReconnected) || errors.Is(err, errAnew) {
			pause = firstRetry / 2
			continue
		}
		if !r.isAway {
			r.isAway = true
			r.t.saysAway(err)
		}
		away(err)
		if time.Since(began) > longestRetry {
			pause = firstRetry
		}
		if r.rest(ctx, pause, before) {
			pause = firstRetry / 2
		}
	}
}

// saysAway logs that the server is away, unless another receiver of the inlet
// has done so since the server was there.
func (t *tracker) saysAway(why error) {
	if !t.away.Swap(true) {
		t.log.Warn("the server is away; the inlet waits for it", "reason", why)
	}
}

// saysBack logs that the server is back, if the log says that it is away.
func (t *tracker) saysBack() {
	if t.away.Swap(false) {
		t.log.Info("the server is back")
	}
}

// rest waits for a pause, until the connection has reconnected more often than
// before, or until ctx ends. It reports whether the connection has reconnected.
func (r *receiver) rest(ctx context.Context, pause time.Duration, before uint64) (reconnected bool) {
	over := time.NewTimer(pause)
	defer over.Stop()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if r.conn.nc.Stats().Reconnects != before {
				return true
			}
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// session receives until something is wrong.
func (r *receiver) session(ctx context.Context, away func(error)) error {
	before := r.conn.nc.Stats().Reconnects
	if !r.conn.nc.IsConnected() {
		return explain(natsgo.ErrDisconnected)
	}
	if err := r.conn.broken(); err != nil { // an acknowledgement now may be forgotten with the server
		return err
	}
	_, err := r.left(ctx)
	if isGone(err) {
		if err = r.restore(ctx, r.consumer); err == nil {
			_, err = r.left(ctx)
		}
	}
	if err != nil {
		return err
	}
	r.isAway = false
	r.t.saysBack()
	away(nil)
	inbox := r.conn.nc.NewInbox()
	arrivals := make(chan *natsgo.Msg, 2*r.most+256)
	a := r.asker(inbox)
	sub, err := r.conn.nc.ChanSubscribe(a.replies(), arrivals)
	if err != nil {
		return err
	}
	s := &session{receiver: r, asks: a, arrivals: arrivals, reconnects: before, of: r.made}
	err = s.receive(ctx)
	s.end(ctx, sub)
	return err
}

// left returns how many messages are left, whether they were delivered or not.
// In a loop a process adds messages before it acknowledges the message that led
// to them: between the two answers of the server there may be another last
// message, and then the loop goes on.
func (r *receiver) left(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	asked := time.Now()
	stream, err := r.conn.js.Stream(ctx, r.t.names.stream)
	if err != nil {
		return 0, explain(err)
	}
	if there := stream.CachedInfo().TimeStamp; !there.IsZero() { // servers before 2.10 do not say it
		r.t.clock.Store(&clock{there, asked.Add(time.Since(asked) / 2)})
	}
	consumer, err := stream.Consumer(ctx, r.consumer)
	if err != nil {
		return 0, explain(err)
	}
	r.made = stream.CachedInfo().Created
	r.t.sees(r.made)
	before := stream.CachedInfo().State
	n := r.remains(before, consumer.CachedInfo())
	if n > 0 {
		return n, nil
	}
	now, err := stream.Info(ctx)
	if err != nil {
		return 0, explain(err)
	}
	return now.State.LastSeq - before.LastSeq, nil
}

// session is a receiver with a subscription.
type session struct {
	*receiver

	asks       asker
	of         time.Time // when the stream was made from which it receives
	arrivals   chan *natsgo.Msg
	reconnects uint64    // of the connection when the session began
	heard      time.Time // when the server was heard last
	got        time.Time // when a message came last
}

// receive asks for messages and hands them on.
func (s *session) receive(ctx context.Context) error {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	s.heard = time.Now()
	freed := s.t.freed
	if s.part {
		freed = nil
	}
	for {
		again, err := s.ask()
		if err != nil {
			return err
		}
		var soon <-chan time.Time
		if again > 0 {
			soon = time.After(again)
		}
		select {
		case m := <-s.arrivals:
			if err := s.take(ctx, m); err != nil {
				return err
			}
		case <-freed:
		case <-soon:
		case <-look.C:
			if err := s.look(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// ask asks for messages. If the server gives signs for none of the requests
// before, it is silent from now on.
func (s *session) ask() (again time.Duration, err error) {
	if err := s.conn.broken(); err != nil {
		return 0, err
	}
	before := s.asks.waits()
	again, err = s.asks.ask()
	if !before && s.asks.waits() {
		s.heard = time.Now()
	}
	return again, err
}

// tooManyBytes is what the server says if the next message has more bytes than
// are left of a request.
const tooManyBytes = "Message Size Exceeds MaxBytes"

// take handles an arrived message: a delivery, or the server's status of a
// request.
func (s *session) take(ctx context.Context, m *natsgo.Msg) error {
	s.heard = time.Now()
	if m.Reply != "" { // the server wants an answer for a message only
		if !isDelivery(m) {
			return nil
		}
		s.asks.delivered(m)
		s.got = s.heard
		return s.hand(ctx, m)
	}
	status, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case status == "100": // the request waits
		return nil
	case status == "409" && text == "Batch Completed": // all that was asked for has arrived
		return nil
	case status == "409" && text == tooManyBytes, status == "404", status == "408":
		s.asks.ended(m, text == tooManyBytes)
		return nil
	default:
		s.receiver.consumer = s.asks.consumer(m) // which may not be there any more
		return fmt.Errorf("%w: %s %s", ErrAway, status, text)
	}
}

// isDelivery reports whether the server wants a message acknowledged. Others
// may send to the inbox of a session what the server did not.
func isDelivery(m *natsgo.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

// hand hands a message on, unless it is in flight, or the server cannot write
// any more: then the message is handled after the restart.
func (s *session) hand(ctx context.Context, m *natsgo.Msg) error {
	d, err := s.t.arrive(m, s.of)
	if d == nil {
		return err
	}
	if err := s.conn.broken(); err != nil { // the server would forget its acknowledgement
		s.t.again(d, 0)
		return err
	}
	select {
	case s.ready <- d:
	case <-ctx.Done():
		s.t.giveBack(d)
	}
	return nil
}

// look looks whether the connection is well, and the stream empty.
func (s *session) look(ctx context.Context) error {
	switch nc := s.conn.nc; {
	case !nc.IsConnected():
		return explain(natsgo.ErrDisconnected)
	case s.conn.broken() != nil:
		return s.conn.broken()
	case nc.Stats().Reconnects != s.reconnects:
		return errReconnected
	case s.asks.waits() && time.Since(s.heard) > silence:
		return fmt.Errorf("%w: %w", ErrAway, errSilent)
	}
	if s.t.inFlight() > 0 && (s.t.free() <= 0 || s.untilEmpty && s.asks.waits() && time.Since(s.got) > lookTime) {
		s.t.cursor().IsFull()
	}
	ends := s.untilEmpty && s.t.inFlight() == 0
	if !ends && !s.t.clock.Load().isOld() {
		return nil
	}
	switch n, err := s.left(ctx); {
	case err != nil:
		return err
	case !s.made.Equal(s.of):
		return errAnew
	case ends && n == 0:
		return errEmpty
	default:
		return nil
	}
}

// end ends the subscription. Messages that the server has sent before it
// learned of that are handed on, or given back. A server that is silent does
// not keep a feed from returning within its grace: messages that it has sent
// are delivered again after AckWait.
func (s *session) end(ctx context.Context, sub *natsgo.Subscription) {
	// keeps messages that arrive until the server has answered; without a
	// connection there is none to keep
	_ = sub.Drain()
	if s.conn.nc.IsConnected() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), feed.Of(ctx).EndTime(time.Second))
		_ = s.conn.nc.FlushWithContext(flush)
		cancel()
	}
	for {
		select {
		case m := <-s.arrivals:
			if isDelivery(m) {
				_ = s.hand(ctx, m)
			}
		default:
			_ = sub.Unsubscribe()
			return
		}
	}
}
