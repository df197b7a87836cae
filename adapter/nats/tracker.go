package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// trackerConfig is what a tracker needs of its inlet.
type trackerConfig struct {
	name    string
	names   names
	conn    *natsgo.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	plain   *slog.Logger // without the name of the inlet
	retry   stage.RetryPolicy
	ackWait time.Duration
	most    int  // messages in flight
	beyond  int  // messages that may be in flight beyond most: one of each partition that keys share
	bytes   int  // in flight, beyond which no more are asked for; 0 means no bound
	cancels bool // other processes may cancel the commands: they are jobs

	denials  *denials
	makeDead func(ctx context.Context) error // makes the stream of letters if it is gone
}

// tracker has the messages of an inlet that have arrived in this process and
// are not acknowledged, given back or buried. It answers the server in
// goroutines of its own, because a goroutine that ends a command must not wait
// for the network. These goroutines run while the inlet feeds a stage, and
// until nothing is in flight.
type tracker struct {
	trackerConfig

	ends    chan end       // has a place for each delivery
	terms   chan *delivery // has a place for each delivery
	redo    chan struct{}  // has an element when all that is not confirmed is to be sent again
	letters chan letter    // has a place for each delivery
	freed   chan struct{}  // has an element when a place has become free
	gone    chan struct{}  // has an element when a place has become free; for close
	stopped context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	clock   atomic.Pointer[clock] // nil if the server has not said what time it is
	away    atomic.Bool           // the log says that the server is away
	waits   atomic.Pointer[error] // why the source waits; nil if it does not

	mu   sync.Mutex // guards the rest
	made time.Time  // when the stream was made; zero if it was not looked at yet
	held map[uint64]*delivery
	lost map[*delivery]bool // in flight, of a stream that is gone
	size int                // of the messages in flight, in bytes
	n    Counts             // without the counts of publishing
	to   *feed.Cursor       // the feed of the last source, nil if there was none
	full standstill
	late int   // letters that cannot be stored now
	done int   // deliveries in flight that have ended
	here []int // deliveries of each partition that keys share, in flight and not ended

	feeding bool          // a stage
	idle    chan struct{} // is closed when the goroutines are to end; nil if there are none
	closed  bool          // no goroutines may start any more
	closing time.Time     // when close was called; zero before
}

// delivery is a message that has arrived. The tracker's lock guards msg, times,
// beat and answered.
type delivery struct {
	seq      uint64 // in the stream
	consumer string
	part     int         // the partition of the consumer; -1 if it has none
	of       *tracker    // that has it
	msg      *natsgo.Msg // as it was delivered last
	times    int         // it was delivered, to any process
	beat     time.Time   // when the server heard of it last
	at       time.Time   // when it was published, by the clock of the server
	size     int         // in bytes

	end    context.Context         // of the command, if it may be canceled; nil otherwise
	cancel context.CancelCauseFunc // ends it

	answered bool // given back: the message may be delivered anew before the tracker has forgotten it
	ended    bool // acknowledged, or dropped; the server has not confirmed it
}

// clock is one instant, by the clock of the server and by the clock of this
// process. The two clocks may differ, and may be set.
type clock struct{ there, here time.Time }

// clockAge is after which time the server is asked for its time again.
const clockAge = time.Minute

// isOld reports whether the server should be asked for its time.
func (c *clock) isOld() bool { return c != nil && time.Since(c.here) > clockAge }

// since returns when it was here what time it was there. Without a clock the
// two are taken to agree.
func (c *clock) since(there time.Time) time.Time {
	if c == nil {
		return there
	}
	return c.here.Add(there.Sub(c.there))
}

// end is the end of a command.
type end struct {
	d   *delivery
	err error
}

// letter is a message that is to become a dead letter.
type letter struct {
	d      *delivery
	reason reason.Reason
	err    error
}

func newTracker(c trackerConfig) *tracker {
	t := &tracker{
		trackerConfig: c, ends: make(chan end, 3*(c.most+c.beyond)), letters: make(chan letter, 3*(c.most+c.beyond)),
		terms: make(chan *delivery, 3*(c.most+c.beyond)), redo: make(chan struct{}, 1),
		freed: make(chan struct{}, 1), gone: make(chan struct{}, 1), held: map[uint64]*delivery{}, lost: map[*delivery]bool{},
	}
	t.here = make([]int, c.beyond)
	t.stopped, t.stop = context.WithCancel(context.Background())
	return t
}

// begin notes that the inlet begins to feed a stage.
func (t *tracker) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.feeding = true
	if t.idle != nil || t.closed {
		return
	}
	idle := make(chan struct{})
	t.idle = idle
	t.running.Go(func() { t.run(idle) })
	t.running.Go(func() { t.bury(idle) })
}

// finish notes that the inlet does not feed a stage any more.
func (t *tracker) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.feeding = false
	t.rest()
}

// rest ends the goroutines if there is nothing to do for them.
func (t *tracker) rest() {
	if t.feeding || t.idle == nil || len(t.held)+len(t.lost) > 0 {
		return
	}
	close(t.idle)
	t.idle = nil
}

// run answers the server until the tracker is idle or stopped.
func (t *tracker) run(idle <-chan struct{}) {
	beats := time.NewTicker(t.ackWait / 6)
	defer beats.Stop()
	late := time.NewTicker(confirmTime / 2)
	defer late.Stop()
	c := newConfirmer(t)
	defer c.close()
	canceled, unhear := t.hearCancels()
	defer unhear()
	for {
		select {
		case e := <-t.ends:
			t.settle(c, e)
		case d := <-t.terms:
			c.send(d, "+TERM", &t.n.DeadLettered)
		case m := <-c.replies:
			c.confirmed(m)
		case m := <-canceled:
			t.cancel(m)
		case <-c.rest.C:
			c.askForRest()
		case <-t.redo:
			c.look(true)
		case <-late.C:
			c.look(false)
		case <-beats.C:
			t.beat(time.Now())
			t.warnFull(time.Now())
		case <-idle:
			return
		case <-t.stopped.Done():
			return
		}
	}
}

// sees notes when the stream was made that is there now. If the stream is
// another one than before, the messages in flight do not belong to it. They are
// not answered any more, since the server would take the answers for the new
// messages with the same numbers.
func (t *tracker) sees(made time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.Equal(made) {
		return
	}
	if !t.made.IsZero() {
		t.log.Error("the stream of the inlet was removed and made anew: its messages are lost, but those in flight here",
			"in_flight", len(t.held))
	}
	t.made = made
	for _, d := range t.held {
		t.lost[d] = true
	}
	clear(t.held)
}

// isLost reports whether the stream that had the message is gone.
func (d *delivery) isLost() bool {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return d.of.lost[d]
}

// arrive takes in a message of the stream that was made at a time. It returns
// nil if the message is in flight here already: then the server gets the answer
// to this delivery.
func (t *tracker) arrive(m *natsgo.Msg, made time.Time) (*delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n.Delivered++
	times := int(min(meta.NumDelivered, 1<<30))
	if times > 1 {
		t.n.Redelivered++
	}
	d := &delivery{seq: meta.Sequence.Stream, consumer: meta.Consumer, part: partOf(meta.Consumer), of: t, msg: m, times: times, beat: time.Now(), at: meta.Timestamp, size: m.Size()}
	if t.cancels {
		d.end, d.cancel = context.WithCancelCause(context.Background())
	}
	if !made.Equal(t.made) {
		t.lost[d] = true
		t.size += d.size
		t.count(d, 1)
		return d, nil
	}
	if d := t.held[d.seq]; d != nil && !d.answered {
		t.n.Repeated++
		d.msg, d.times, d.beat = m, times, time.Now()
		if d.ended { // the server does not know it
			d.strip()
			ring(t.redo)
		}
		return nil, nil //nolint:nilnil // the delivery is held already, and there is nothing to do
	}
	t.held[d.seq] = d
	t.size += d.size
	t.count(d, 1)
	return d, nil
}

// message returns the message of a delivery.
func (d *delivery) message() *natsgo.Msg {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return d.msg
}

// deliveries returns how often the message was delivered.
func (d *delivery) deliveries() int {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return d.times
}

// ended notes the end of a command. It never waits.
func (t *tracker) ended(d *delivery, err error) { t.ends <- end{d, err} }

// undecodable buries a message of which there is no command.
func (t *tracker) undecodable(d *delivery, err error) {
	why := Undecodable
	if errors.Is(err, ErrUnknownType) {
		why = UnknownType
	}
	t.letters <- letter{d, why, err}
}

// errLost is why a message that failed is not delivered again.
var errLost = errors.New("it is not delivered again, since the stream that had it is gone")

// settle answers the server after the end of a command.
func (t *tracker) settle(c *confirmer, e end) {
	if e.d.isCanceled() {
		c.send(e.d, "+TERM", &t.n.DeadLettered)
		return
	}
	if e.err != nil && e.d.isLost() {
		t.letters <- letter{e.d, reason.Error, fmt.Errorf("%w: %w", errLost, e.err)}
		return
	}
	switch v := verdict.Of(t.log, t.retry, e.d.deliveries(), e.err); {
	case v.Act == verdict.Ack:
		c.send(e.d, "+ACK", &t.n.Acknowledged)
	case v.Act == verdict.Bury:
		t.letters <- letter{e.d, v.Reason, e.err}
	case v.Free:
		t.refused(e.d, v.Delay)
	case !errors.Is(e.err, stage.ErrStopped):
		t.again(e.d, v.Delay)
	case errors.Is(e.err, stage.ErrStuck): // its handler still runs: another process does it after AckWait
		t.release(e.d, &t.n.GivenBack)
	default:
		t.running.Go(func() {
			t.noteBack(e.d)
			t.again(e.d, 0)
		})
	}
}

// refused has a message delivered again after a pause. Its command was not
// tried, so the server notes that the delivery does not count.
func (t *tracker) refused(d *delivery, pause time.Duration) {
	t.running.Go(func() {
		t.noteBack(d)
		t.again(d, pause)
	})
}

// again has a message delivered again after a pause. It says so even if there
// is none: the server keeps a pause on disk, and forgets without one that the
// message was given back, if it is started again before it has delivered the
// message. Then the message waits for AckWait.
func (t *tracker) again(d *delivery, pause time.Duration) {
	t.answer(d, fmt.Appendf(nil, `-NAK {"delay": %d}`, pause.Nanoseconds()), &t.n.GivenBack)
}

// giveBack has a message delivered again at once: its command was not
// submitted.
func (t *tracker) giveBack(d *delivery) { t.ended(d, stage.ErrStopped) }

// giveBackAll gives back all messages that are ready now.
func (t *tracker) giveBackAll(ready <-chan *delivery) {
	for {
		select {
		case d := <-ready:
			t.giveBack(d)
		default:
			return
		}
	}
}

// sendsLast notes that the last answer for a message is sent: only the subject
// of the answer is needed from now on. It reports whether there is nothing to
// answer for: the stream is gone.
func (t *tracker) sendsLast(d *delivery) (lost bool) {
	t.mu.Lock()
	d.ended = true
	t.done++
	t.count(d, -1)
	t.size -= d.size
	d.strip()
	lost = t.lost[d]
	t.mu.Unlock()
	ring(t.freed)
	return lost
}

// strip drops the data of a message that has ended.
func (d *delivery) strip() {
	d.msg, d.size = &natsgo.Msg{Subject: d.msg.Subject, Reply: d.msg.Reply}, 0
}

// givesUp reports whether confirmations are not waited for any more: the inlet
// is being closed, and the server is away, or forbids the acknowledgements, or
// is silent.
func (t *tracker) givesUp(consumer string) bool {
	t.mu.Lock()
	closing := t.closing
	t.mu.Unlock()
	return !closing.IsZero() &&
		(!t.conn.IsConnected() || time.Since(closing) > answerTime || t.denials.about(t.ackSubject(consumer), time.Time{}) != nil)
}

// unanswered returns why the server has no answer to the deliveries of a
// message: that it does not permit acknowledgements, if it denies a sign of
// life for this delivery, or else the likely reasons.
func (t *tracker) unanswered(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	subject := t.ackSubject(d.consumer)
	err := t.denials.ask(ctx, func(s string) bool { return s == pattern(subject) }, func(ctx context.Context) error {
		_, err := t.conn.RequestWithContext(ctx, d.message().Reply, []byte("+WPI"))
		return err
	})
	if now, denied := errors.AsType[*denial](err); denied {
		return fmt.Errorf("it may have been handled each time, but was not acknowledged: %w", now)
	}
	return errUnanswered
}

// errUnanswered is why a message was delivered too often whose acknowledgement
// the server permits to this process.
var errUnanswered = errors.New("no process has acknowledged it: each was killed or cut off, or was not permitted to")

// ackSubject returns the beginning of the subjects to which the
// acknowledgements of a consumer are published.
func (t *tracker) ackSubject(consumer string) string {
	return "$JS.ACK." + t.names.stream + "." + consumer + "."
}

// answer gives a message back.
func (t *tracker) answer(d *delivery, text []byte, count *uint64) {
	t.mu.Lock()
	d.answered = true
	reply, lost := d.msg.Reply, t.lost[d]
	t.mu.Unlock()
	if lost {
		t.release(d, count)
		return
	}
	if err := t.conn.Publish(reply, text); err != nil {
		t.log.Warn("the server was not answered; the message will be delivered again",
			"sequence", d.seq, "answer", string(text), "reason", err)
	}
	t.release(d, count)
}

// release forgets a delivery, and counts what became of it.
func (t *tracker) release(d *delivery, count *uint64) {
	t.mu.Lock()
	*count++
	t.size -= d.size
	if d.ended {
		t.done--
	} else {
		t.count(d, -1)
	}
	if t.held[d.seq] == d {
		delete(t.held, d.seq)
	}
	delete(t.lost, d)
	t.rest()
	t.mu.Unlock()
	ring(t.freed)
	ring(t.gone)
}

// beat sends a sign of life for each delivery of which the server has heard
// nothing for a third of the time to acknowledge.
func (t *tracker) beat(now time.Time) {
	var due []string
	t.mu.Lock()
	for _, d := range t.held {
		if now.Sub(d.beat) >= t.ackWait/3 {
			d.beat = now
			due = append(due, d.msg.Reply)
		}
	}
	t.mu.Unlock()
	for _, reply := range due {
		if err := t.conn.Publish(reply, []byte("+WPI")); err != nil {
			return // the connection is closed, or has too much to send
		}
	}
}

// warnFull warns if the inlet holds as many messages as it may and none of them
// ends. A stage that collects more messages than that, such as a window, would
// wait for ever.
func (t *tracker) warnFull(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if waited := t.full.observe(now, t.places() <= 0, t.n.settled()); waited > 0 {
		t.log.Warn("the inlet has as many messages in flight as it may, and none has ended: does a stage collect more? see MaxInFlight",
			"in_flight", len(t.held)+len(t.lost), "bytes", t.size, "for", waited.Round(time.Second))
	}
}

// settled returns how many messages were in flight and are no more.
func (n *Counts) settled() uint64 { return n.Acknowledged + n.GivenBack + n.DeadLettered }

// settled returns how many messages were in flight and are no more.
func (t *tracker) settled() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n.settled()
}

// subjects returns the subjects of the messages in flight. At most one message
// of a partition is in flight.
func (t *tracker) subjects() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.held {
		all = append(all, d.msg.Subject)
	}
	return all
}

// standstill notices that an inlet is full and that none of its messages ends.
type standstill struct {
	since time.Time // zero if the inlet is not full
	ended uint64    // messages, then
	limit time.Duration
}

// firstStandstill is how long an inlet stands still before the first warning.
// Each warning doubles the time before the next one, since commands may take
// long. It is a variable for tests.
var firstStandstill = time.Minute

// observe returns for how long the inlet has stood still, if that is worth a
// warning, or else 0.
func (s *standstill) observe(now time.Time, full bool, ended uint64) time.Duration {
	switch {
	case !full:
		s.since = time.Time{}
	case s.since.IsZero() || ended != s.ended:
		s.since, s.ended = now, ended
	}
	limit := max(s.limit, firstStandstill)
	if waited := now.Sub(s.since); full && waited >= limit {
		s.limit = 2 * limit
		return waited
	}
	return 0
}

// free returns how many messages there are places for.
func (t *tracker) free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places()
}

// places is free for callers that have the lock. Messages whose letters cannot
// be stored take no places, unless there are too many, and neither do messages
// that have ended.
func (t *tracker) places() int {
	if t.bytes > 0 && t.size >= t.bytes {
		return 0
	}
	return t.most + min(t.late, t.most) + min(t.done, t.most) - len(t.held) - len(t.lost)
}

// count counts a delivery of a partition that keys share. The caller has the
// lock.
func (t *tracker) count(d *delivery, change int) {
	if d.part >= 0 && d.part < len(t.here) {
		t.here[d.part] += change
	}
}

// spaces is free, and copies how many deliveries of each partition have not
// ended.
func (t *tracker) spaces(here []int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(here, t.here)
	return t.places()
}

// cursor returns the feed of the last source; nil if there was none.
func (t *tracker) cursor() *feed.Cursor {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to
}

// inFlight returns how many deliveries there are.
func (t *tracker) inFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held) + len(t.lost)
}

func (t *tracker) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.n
	n.InFlight = uint64(len(t.held) + len(t.lost))
	return n
}

// close waits until nothing is in flight, or ctx ends, and stops the
// goroutines.
func (t *tracker) close(ctx context.Context) (err error) {
	t.mu.Lock()
	t.closing = time.Now()
	t.mu.Unlock()
	ring(t.redo)
	for t.inFlight() > 0 && err == nil {
		select {
		case <-t.gone:
		case <-ctx.Done():
			err = fmt.Errorf("nats: inlet %q: %d messages are in flight, and will be delivered again: %w",
				t.name, t.inFlight(), context.Cause(ctx))
		}
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.running.Wait()
	return err
}

// lacks returns the error of an inlet that feeds a stage and has not found its
// stream; nil if it has. Other errors of the source are no fault of the stream.
func (t *tracker) lacks() error {
	if err := t.waits.Load(); err != nil && isGone(*err) {
		return fmt.Errorf("inlet %q: %w", t.name, *err)
	}
	return nil
}
