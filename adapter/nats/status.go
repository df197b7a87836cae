package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/link"
)

// Status is what the server has of an [Inlet], for all processes together. At
// rest, when nothing is published or acknowledged,
//
//	Published = acknowledged + Buried + Pending
//
// where acknowledged is the count of the processes. Published has also each job
// that was canceled while it waited in the queue, and each that SetLane has
// moved from there once more.
type Status struct {
	Published    uint64 // messages since the stream was made, without duplicates
	Pending      uint64 // messages that are not done
	InFlight     uint64 // pending messages that were delivered, including messages that wait for another delivery
	Redelivered  uint64 // messages in flight that were delivered more than once
	Buried       uint64 // messages that have become dead letters
	DeadLettered uint64 // dead letters that are kept: neither retried nor dropped

	// Age is how long ago the oldest message that is not done was published, by
	// the clock of the server; 0 if there is none.
	Age time.Duration
	// Fill is how full the stream is, from 0 to 1, as Options.MaxBytes and
	// MaxMessages limit it; 0 without a limit.
	Fill float64
	// Delayed is how many jobs wait for their time, of an inlet with
	// Options.Jobs; they are not pending. Each becomes a message when it is due,
	// unless it is a duplicate then or is canceled.
	Delayed uint64
}

// Status asks the server.
func (i *Inlet[C]) Status(ctx context.Context) (Status, error) {
	link.CheckContext(ctx, "nats: Status")
	return i.conn.Status(ctx, i.name)
}

// Status asks the server for the inlet of a name, which any process may have
// made. The error of one that is not there wraps jetstream.ErrStreamNotFound of
// nats.go.
func (c *Conn) Status(ctx context.Context, inlet string) (Status, error) {
	link.CheckContext(ctx, "nats: Status")
	s, err := c.status(ctx, namesOf(inlet))
	if err != nil {
		return s, fmt.Errorf("nats: inlet %q: %w", inlet, c.explain(err))
	}
	return s, nil
}

func (c *Conn) status(ctx context.Context, n names) (s Status, err error) {
	stream, err := c.js.Stream(ctx, n.stream)
	if err != nil {
		return s, err
	}
	dead, err := c.js.Stream(ctx, n.dead)
	if err != nil {
		return s, err
	}
	if k := kindOf(stream.CachedInfo().Config); k.parts > 0 {
		s, err = partitionedStatus(ctx, stream, dead.CachedInfo().State)
		if err == nil && k.lanes != "" {
			s.Delayed, err = c.delayed(ctx, n)
		}
		return s, err
	}
	consumer, err := stream.Consumer(ctx, consumerName)
	if err != nil {
		return s, err
	}
	info, letters, taken := stream.CachedInfo(), dead.CachedInfo().State, consumer.CachedInfo()
	s = Status{
		Published: info.State.LastSeq, Pending: left(info.State, taken), Buried: letters.LastSeq, DeadLettered: letters.Msgs,
		InFlight: uint64(max(taken.NumAckPending, 0)), Redelivered: uint64(max(taken.NumRedelivered, 0)), Fill: fill(info),
	}
	if slices.Contains(info.Config.Subjects, n.subject+".*") {
		if s.Delayed, err = c.delayed(ctx, n); err != nil {
			return s, err
		}
	}
	if s.Pending > 0 {
		oldest, err := oldest(ctx, stream, taken)
		if err != nil {
			return s, err
		}
		s.Age = max(info.TimeStamp.Sub(oldest), 0)
	}
	return s, nil
}

// delayed returns how many jobs of an inlet wait for their time.
func (c *Conn) delayed(ctx context.Context, n names) (uint64, error) {
	stream, err := c.js.Stream(ctx, n.later)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil // an inlet with lanes that is no job queue
	}
	if err != nil {
		return 0, err
	}
	all := stream.CachedInfo().State.Msgs
	plans, err := c.laterSubjects(ctx, n, n.plan(">"))
	return all - min(all, uint64(len(plans))), err
}

// partitionedStatus is status for an inlet with partitions.
func partitionedStatus(ctx context.Context, stream jetstream.Stream, letters jetstream.StreamState) (s Status, err error) {
	info := stream.CachedInfo()
	s = Status{
		Published: info.State.LastSeq, Pending: info.State.Msgs, Buried: letters.LastSeq, DeadLettered: letters.Msgs, Fill: fill(info),
	}
	if s.Pending > 0 {
		s.Age = max(info.TimeStamp.Sub(info.State.FirstTime), 0)
	}
	all := stream.ListConsumers(ctx)
	for c := range all.Info() {
		s.InFlight += uint64(max(c.NumAckPending, 0))
		s.Redelivered += uint64(max(c.NumRedelivered, 0))
	}
	return s, all.Err()
}

// left returns how many messages are not done, of a stream and its consumer
// that were asked in this order.
//
// The stream may have a few more: if the server is killed, it may know later
// that a message was acknowledged, and not that it was therefore removed. What
// the consumer itself says of messages that were not delivered may be old,
// since it is notified of new ones.
func left(s jetstream.StreamState, c *jetstream.ConsumerInfo) uint64 {
	n := uint64(max(c.NumAckPending, 0))
	if s.LastSeq > c.Delivered.Stream {
		n += min(s.LastSeq-c.Delivered.Stream, s.Msgs)
	}
	return n
}

// oldest returns when the oldest message that is not done was published. That
// is the first one of the stream, unless the stream begins with messages that
// were acknowledged; see left.
func oldest(ctx context.Context, stream jetstream.Stream, c *jetstream.ConsumerInfo) (time.Time, error) {
	info := stream.CachedInfo()
	if info.State.Msgs == 0 { // what the consumer has was published after the stream was asked
		return info.TimeStamp, nil
	}
	if info.State.FirstSeq > c.AckFloor.Stream {
		return info.State.FirstTime, nil
	}
	m, err := stream.GetMsg(ctx, c.AckFloor.Stream+1, jetstream.WithGetMsgSubject(">"))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // it was acknowledged meanwhile
		return info.TimeStamp, nil
	case err != nil:
		return time.Time{}, err
	default:
		return m.Time, nil
	}
}

// fill returns how full a stream is.
func fill(i *jetstream.StreamInfo) (part float64) {
	if most := i.Config.MaxMsgs; most > 0 {
		part = float64(i.State.Msgs) / float64(most)
	}
	if most := i.Config.MaxBytes; most > 0 {
		part = max(part, float64(i.State.Bytes)/float64(most))
	}
	return part
}

// InletInfo is what an inlet does in this process.
type InletInfo struct {
	Name            string
	Pipeline, Stage string // that it feeds, or has fed last; empty if it has fed none
	Counts          Counts // without the counts of publishing
}

// Inlets returns the inlets of this Conn, in the order in which they were made.
func (c *Conn) Inlets() []InletInfo {
	c.mu.Lock()
	inlets := c.inlets
	c.mu.Unlock()
	infos := make([]InletInfo, 0, len(inlets))
	for _, i := range inlets {
		infos = append(infos, i.info())
	}
	return infos
}

// feeds notes which feed a source belongs to.
func (t *tracker) feeds(ctx context.Context) {
	to := feed.Of(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = to
}

// info returns what the inlet does here.
func (t *tracker) info() InletInfo {
	i := InletInfo{Name: t.name, Counts: t.counts()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to != nil {
		i.Pipeline, i.Stage = t.to.Pipeline, t.to.Stage
	}
	return i
}
