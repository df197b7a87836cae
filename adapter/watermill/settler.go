package watermill

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Counts are the counts of a [Source]. At any instant
//
//	Delivered = Acknowledged + GivenBack + DeadLettered + InFlight
type Counts struct {
	Delivered    uint64 // messages that have arrived; each delivery counts
	Acknowledged uint64 // messages that are done
	GivenBack    uint64 // messages that were nacked, to be delivered again
	DeadLettered uint64 // messages that have become dead letters; they are acknowledged, too
	InFlight     uint64 // messages that have arrived and are none of the three
}

// Counts returns the counts since the source was made.
func (t *settler) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// settlerConfig configures a settler for its source.
type settlerConfig struct {
	topic     string
	log       *slog.Logger
	retry     stage.RetryPolicy
	dead      message.Publisher // may be nil
	deadTopic string
	most      int
}

// settler settles messages, each once: it acknowledges them, nacks them, or
// makes dead letters of them. A step that must wait runs in a goroutine of its
// own, because the goroutine that ends a command must not block.
type settler struct {
	settlerConfig

	places  chan struct{}  // has an element for each message in flight
	running sync.WaitGroup // all goroutines
	forced  context.Context
	// force nacks all messages in flight and ends all waits.
	force context.CancelFunc
	seed  maphash.Seed

	mu     sync.Mutex // guards the rest, and the settled and held of others
	n      Counts
	closed bool
	last   time.Time           // when a message arrived last
	tries  map[fingerprint]int // failures of messages that were nacked
}

func newSettler(c settlerConfig) *settler {
	t := &settler{settlerConfig: c, places: make(chan struct{}, c.most), seed: maphash.MakeSeed(), tries: map[fingerprint]int{}}
	t.forced, t.force = context.WithCancel(context.Background())
	return t
}

// enter notes that a feed runs, which calls running.Done at its end. It reports
// false if the source was closed.
func (t *settler) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.running.Add(1)
	}
	return !t.closed
}

// leave lets no feed run any more.
func (t *settler) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// quietTime is for how long no message may arrive while others are in flight,
// until the source takes it that the subscriber hands on no more before some of
// them are acknowledged. Most subscribers do so, and none says it.
const quietTime = time.Minute

// isFull reports whether no further message can arrive until some are settled,
// as far as the source knows.
func (t *settler) isFull(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n.InFlight >= uint64(t.most) || t.n.InFlight > 0 && now.Sub(t.last) >= quietTime
}

// delivery is a message that has arrived.
type delivery struct {
	m       *message.Message
	ctx     context.Context // of the message, when it arrived
	of      *subscription
	settled bool
	late    bool // its subscription had ended when it was acknowledged
}

// fate is how a message was settled.
type fate uint8

const (
	acknowledged fate = iota
	givenBack
	deadLettered
)

// settle acknowledges or nacks a message, unless that was done.
func (t *settler) settle(d *delivery, as fate) {
	if !t.settleOnce(d, as) || as == givenBack {
		return
	}
	if d.late {
		t.log.Warn("a subscription had ended when a message of it was acknowledged; it may be delivered again", "uuid", d.m.UUID)
	}
}

// settleOnce reports whether the message was not settled before.
func (t *settler) settleOnce(d *delivery, as fate) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.settled {
		return false
	}
	d.settled = true
	switch as {
	case acknowledged:
		t.n.Acknowledged++
	case givenBack:
		t.n.GivenBack++
	case deadLettered:
		t.n.DeadLettered++
	}
	if as == givenBack {
		d.m.Nack()
	} else {
		t.acknowledge(d)
	}
	t.n.InFlight--
	d.of.release(d)
	<-t.places
	return true
}

func (t *settler) acknowledge(d *delivery) {
	d.late = d.ctx.Err() != nil
	if len(t.tries) > 0 {
		delete(t.tries, t.fingerprint(d.m))
	}
	d.m.Ack()
	d.of.acknowledged(d)
}

// ended settles the message of a command that has ended. It never waits.
func (t *settler) ended(d *delivery, err error) {
	if err == nil {
		t.settle(d, acknowledged)
		return
	}
	t.later(d, func() { t.fail(d, err) })
}

// undecodable settles a message of which there is no command.
func (t *settler) undecodable(d *delivery, err error) {
	t.later(d, func() {
		n := t.tried(d)
		t.remember(d, n)
		t.bury(d, n, Undecodable, err)
	})
}

// later calls f in a goroutine, unless the message is settled. A message that f
// has not settled at its end is nacked.
func (t *settler) later(d *delivery, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.settled {
		return
	}
	t.running.Go(func() { // the subscription of d is running, too
		defer t.settle(d, givenBack)
		f()
	})
}

// fail settles the message of a command that has failed.
func (t *settler) fail(d *delivery, err error) {
	n := t.tried(d)
	v := verdict.Of(t.log, t.retry, n, err)
	if v == (verdict.Verdict{Act: verdict.GiveBack}) { // a hard stop; the command has not failed
		return
	}
	if !v.Free {
		t.remember(d, n)
	}
	if v.Act == verdict.Bury {
		t.bury(d, n, v.Reason, err)
		return
	}
	d.of.pause(v.Delay)
}

// The names of the metadata of dead letters, of which Watermill's own
// middleware has the first two.
const (
	keyError  = "reason_poisoned"
	keyTopic  = "topic_poisoned"
	keyReason = "golda_reason"
)

// bury publishes a dead letter and acknowledges its message then, in this
// order. As long as the letter cannot be published the message stays in flight.
// If there are no dead letters, the message is left to be nacked, after a
// pause.
func (t *settler) bury(d *delivery, n int, why reason.Reason, err error) {
	text := verdict.Text(err)
	if t.dead == nil {
		t.log.Error("a message that would be a dead letter is delivered again: there is no Options.Dead",
			"uuid", d.m.UUID, "letter", why, "tries", n, "reason", text)
		d.of.pause(verdict.Pause(t.retry, n))
		return
	}
	for n := 1; ; n++ {
		letter := d.m.Copy()
		if letter.Metadata == nil {
			letter.Metadata = message.Metadata{}
		}
		letter.SetContext(t.forced)
		letter.Metadata.Set(keyError, text)
		letter.Metadata.Set(keyTopic, t.topic)
		letter.Metadata.Set(keyReason, string(why))
		failure := publish(t.dead, t.deadTopic, letter)
		if failure == nil {
			break
		}
		t.log.Warn("a dead letter was not published; the source tries again",
			"uuid", d.m.UUID, "letter", why, "reason", verdict.Text(failure))
		if !sleep(t.forced, retryPause(n)) {
			return
		}
	}
	t.log.Error("dead letter", "uuid", d.m.UUID, "letter", why, "tries", n, "reason", text)
	t.settle(d, deadLettered)
}

// fingerprint recognises a message that is delivered again. Its metadata may
// change on the way, and its UUID may be empty.
type fingerprint struct {
	uuid    string
	payload uint64
}

func (t *settler) fingerprint(m *message.Message) fingerprint {
	return fingerprint{m.UUID, maphash.Bytes(t.seed, m.Payload)}
}

// mostTries is how many failing messages are remembered.
const mostTries = 4096

// tried returns how often a message was tried, with this time.
func (t *settler) tried(d *delivery) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tries[t.fingerprint(d.m)] + 1
}

// remember keeps how often a message was tried. If there are too many, any
// other one is forgotten.
func (t *settler) remember(d *delivery, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other := range t.tries {
		if len(t.tries) < mostTries {
			break
		}
		delete(t.tries, other)
	}
	t.tries[t.fingerprint(d.m)] = n
}

// refuseAll nacks the messages of a channel until it is closed: a subscriber
// may wait for each answer.
func (t *settler) refuseAll(messages <-chan *message.Message) {
	for m := range messages {
		if m != nil {
			t.refuse(m)
		}
	}
}

// refuse nacks a message for which there is no place.
func (t *settler) refuse(m *message.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n.Delivered++
	t.n.GivenBack++
	m.Nack()
}

// subscription is a subscription that works or has ended, with its messages in
// flight.
type subscription struct {
	t        *settler
	ctx      context.Context
	cancel   context.CancelFunc // ends it
	messages <-chan *message.Message
	retired  chan struct{} // closed when no more messages are taken
	empty    chan struct{} // closed when nothing is in flight after that

	// The settler's lock guards the rest.
	over   bool
	held   map[*delivery]struct{}
	unsure []context.Context // of messages that were acknowledged; each ends when the subscriber has passed that on
	pruned int               // how many were left of unsure when it was looked through last
	blind  time.Time         // when a message was acknowledged last whose context does not say so
}

func newSubscription(ctx context.Context, cancel context.CancelFunc, t *settler, messages <-chan *message.Message) *subscription {
	return &subscription{
		t: t, ctx: ctx, cancel: cancel, messages: messages,
		retired: make(chan struct{}), empty: make(chan struct{}), held: map[*delivery]struct{}{},
	}
}

// arrive takes in a message, for which there is a place.
func (s *subscription) arrive(m *message.Message) *delivery {
	d := &delivery{m: m, ctx: m.Context(), of: s}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.n.Delivered++
	s.t.n.InFlight++
	s.held[d] = struct{}{}
	s.t.last = time.Now()
	return d
}

// acknowledged notes that a message was acknowledged.
func (s *subscription) acknowledged(d *delivery) {
	if d.ctx.Done() == nil || d.ctx == s.ctx {
		s.blind = time.Now()
		return
	}
	s.unsure = append(s.unsure, d.ctx)
	if len(s.unsure) < max(64, 2*s.pruned) {
		return
	}
	left := s.unsure[:0]
	for _, ctx := range s.unsure {
		if ctx.Err() == nil {
			left = append(left, ctx)
		}
	}
	clear(s.unsure[len(left):])
	s.unsure, s.pruned = left, len(left)
}

// release forgets a message that is settled.
func (s *subscription) release(d *delivery) {
	delete(s.held, d)
	if s.over && len(s.held) == 0 {
		close(s.empty)
	}
}

// retire notes that no more messages are taken.
func (s *subscription) retire() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.over = true
	close(s.retired)
	if len(s.held) == 0 {
		close(s.empty)
	}
}

// pause waits before a message is nacked, but not if the subscription ends.
func (s *subscription) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.retired:
	}
}

// finish ends a subscription that is retired, when all that is in flight of it
// is settled.
func (s *subscription) finish() {
	select {
	case <-s.empty:
	case <-s.t.forced.Done():
		for _, d := range s.left() {
			s.t.settle(d, givenBack)
		}
	}
	s.confirm()
	s.cancel()
	s.t.refuseAll(s.messages)
}

// left returns the messages in flight.
func (s *subscription) left() (all []*delivery) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for d := range s.held {
		all = append(all, d)
	}
	return all
}

// How long a subscriber has to pass acknowledgements on to the broker before
// its subscription is ended, if the contexts of the messages say when it has,
// and if they do not. After that the messages may be delivered again.
const (
	confirmTime = 2 * time.Second
	blindTime   = 250 * time.Millisecond
)

// confirm waits until the acknowledgements were passed on.
func (s *subscription) confirm() {
	s.t.mu.Lock()
	unsure, blind := s.unsure, time.Until(s.blind.Add(blindTime))
	s.t.mu.Unlock()
	limit := time.After(confirmTime)
	for _, ctx := range unsure {
		select {
		case <-ctx.Done():
		case <-s.t.forced.Done():
			return
		case <-limit:
			return
		}
	}
	if blind > 0 {
		sleep(s.t.forced, blind)
	}
}
