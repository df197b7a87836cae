package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage/reason"
)

// The headers of dead letters, beside those of the message.
const (
	headerReason     = "Golda-Reason"
	headerError      = "Golda-Error"
	headerDeliveries = "Golda-Deliveries"
	headerSequence   = "Golda-Sequence"
	headerPublished  = "Golda-Published"
	headerID         = "Golda-Id"
)

// letterRoom is how many bytes of the largest message are kept free for the headers of its dead letter.
const letterRoom = 4 << 10

// The reasons of a [Letter] that package reason does not have.
const (
	Undecodable               = verdict.Undecodable // the codec returned an error
	UnknownType reason.Reason = "unknown_type"      // the codec returned ErrUnknownType
	Deliveries  reason.Reason = "deliveries"        // it was delivered as often as it may, and no process said how it ended
)

// bury makes letters of messages until the tracker is idle or stopped.
func (t *tracker) bury(idle <-chan struct{}) {
	for {
		select {
		case l := <-t.letters:
			t.buryOne(l)
		case <-idle:
			return
		case <-t.stopped.Done():
			return
		}
	}
}

// buryOne stores a letter and ends its message then, in this order: a crash between the two leaves both, and the message is
// recognised when it is delivered again. As long as the letter cannot be stored, the message stays in flight.
func (t *tracker) buryOne(l letter) {
	if !errors.Is(l.err, errLost) && (l.reason == reason.Error || l.reason == reason.Crash) {
		v := verdict.Of(t.log, t.retry, t.attempts(t.stopped, l.d), l.err)
		if t.stopped.Err() != nil {
			return
		}
		if v.Act == verdict.GiveBack {
			t.again(l.d, v.Delay)
			return
		}
	}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		err := t.store(l)
		if err == nil {
			break
		}
		t.log.Warn("a dead letter was not stored; the inlet tries again", "sequence", l.d.seq, "letter", l.reason, "reason", err)
		select {
		case <-time.After(pause):
		case <-t.stopped.Done():
			return
		}
	}
	t.log.Error("dead letter", "sequence", l.d.seq, "letter", l.reason, "deliveries", l.d.deliveries(), "reason", l.err)
	t.end(l.d)
}

// end has the server drop a message that is a dead letter.
func (t *tracker) end(d *delivery) { t.answer(d, []byte("+TERM"), &t.n.DeadLettered) }

// store stores a letter. It returns nil if the letter is there already.
func (t *tracker) store(l letter) error {
	m := t.letterOf(l)
	ctx, cancel := context.WithTimeout(t.stopped, longestRetry)
	defer cancel()
	_, err := t.js.PublishMsg(ctx, m)
	if errors.Is(err, natsgo.ErrMaxPayload) { // it was not published by an inlet, which keeps some bytes free
		m.Header = natsgo.Header{headerReason: {string(l.reason)}, headerType: m.Header[headerType], headerVersion: m.Header[headerVersion]}
		_, err = t.js.PublishMsg(ctx, m)
	}
	if isThere(err) {
		return nil
	}
	return explain(err)
}

// isThere reports whether an error of the server means that a subject of the dead letters has a letter.
func isThere(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && strings.Contains(api.Description, "maximum messages per subject")
}

// letterOf returns the message of a letter.
func (t *tracker) letterOf(l letter) *natsgo.Msg {
	from := l.d.message()
	m := &natsgo.Msg{Subject: t.subjectOf(l.d), Data: from.Data, Header: maps.Clone(from.Header)}
	if m.Header == nil {
		m.Header = natsgo.Header{}
	}
	if id := m.Header.Get(jetstream.MsgIDHeader); id != "" {
		m.Header.Set(headerID, id)
	}
	for name := range m.Header {
		if strings.HasPrefix(name, "Nats-") { // the server would obey them
			m.Header.Del(name)
			delete(m.Header, name)
		}
	}
	m.Header.Set(headerReason, string(l.reason))
	m.Header.Set(headerError, verdict.Text(l.err))
	m.Header.Set(headerDeliveries, strconv.Itoa(l.d.deliveries()))
	m.Header.Set(headerSequence, strconv.FormatUint(l.d.seq, 10))
	m.Header.Set(headerPublished, l.d.at.UTC().Format(time.RFC3339Nano))
	return m
}

// subjectOf returns the subject of a message's letter, which no other message has.
func (t *tracker) subjectOf(d *delivery) string { return t.names.deadSubject + "." + d.key() }

// key names a message. Its sequence alone does not: a stream that was removed and made anew counts from one again, and one that has lost its
// last messages in a power cut gives their numbers to others, while the letters of what it had before are kept.
func (d *delivery) key() string { return fmt.Sprintf("%d-%d", d.seq, d.at.UnixNano()) }

// buried reports whether a message has a letter: the process that has stored it died before it could end the message. It waits for a server
// that is away, until ctx ends.
func (t *tracker) buried(ctx context.Context, dead jetstream.Stream, d *delivery) bool {
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		ask, cancel := context.WithTimeout(ctx, longestRetry)
		_, err := dead.GetLastMsgForSubject(ask, t.subjectOf(d))
		cancel()
		switch {
		case err == nil || errors.Is(err, jetstream.ErrMsgNotFound):
			return err == nil
		case !errors.Is(explain(err), ErrAway):
			t.log.Warn("the server does not say whether a message is a dead letter; it is taken to be none", "sequence", d.seq, "reason", err)
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// Letter is a dead letter of an [Inlet]: a message that was given up.
type Letter struct {
	Payload                  // what was published
	ID         string        // of the message; empty if it had none
	Reason     reason.Reason // reason.Error, reason.Crash, reason.Expired, Undecodable, UnknownType or Deliveries
	Err        string        // the text of the error, cut after 1 KiB
	Deliveries int           // how often it was delivered
	Sequence   uint64        // of the message in the inlet's stream
	Published  time.Time
	Buried     time.Time // when it became a dead letter

	at        uint64 // its sequence in the stream of dead letters
	partition string // of the message; empty if it had none
}

// Letters returns the dead letters, the oldest first. Each is asked for when its turn comes. If that fails, the error is the last element.
// Letters that are added meanwhile are included.
func (i *Inlet[C]) Letters(ctx context.Context) iter.Seq2[Letter, error] {
	link.CheckContext(ctx, "nats: Letters")
	return func(yield func(Letter, error) bool) {
		for next := uint64(1); ; {
			m, err := i.dead.GetMsg(ctx, next, jetstream.WithGetMsgSubject(i.names.deadSubject+".*"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return
			}
			if err != nil {
				yield(Letter{}, fmt.Errorf("nats: inlet %q: dead letters: %w", i.name, explain(err)))
				return
			}
			if !yield(letterFrom(m), nil) {
				return
			}
			next = m.Sequence + 1
		}
	}
}

// letterFrom reads a letter.
func letterFrom(m *jetstream.RawStreamMsg) Letter {
	l := Letter{
		Payload: Payload{Type: m.Header.Get(headerType), Data: m.Data},
		ID:      idFrom(m.Header.Get(headerID)), Reason: reason.Reason(m.Header.Get(headerReason)), Err: m.Header.Get(headerError),
		Buried: m.Time, at: m.Sequence, partition: m.Header.Get(headerPartition),
	}
	l.Version, _ = strconv.Atoi(m.Header.Get(headerVersion))
	l.Deliveries, _ = strconv.Atoi(m.Header.Get(headerDeliveries))
	l.Sequence, _ = strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	l.Published, _ = time.Parse(time.RFC3339Nano, m.Header.Get(headerPublished))
	return l
}

// errNoLetter refuses a Letter that a program has made.
var errNoLetter = errors.New("the letter is none that Letters has returned")

// Retry publishes the message of a letter to the inlet again, as a new message without the ID, and drops the letter. If that is
// interrupted between the two, the letter stays; a second Retry within the time of [Options.Dedup] publishes nothing more.
func (i *Inlet[C]) Retry(ctx context.Context, l Letter) error {
	link.CheckContext(ctx, "nats: Retry")
	if l.at == 0 {
		return fmt.Errorf("nats: inlet %q: retry: %w", i.name, errNoLetter)
	}
	m := &natsgo.Msg{Subject: i.names.subject, Data: l.Data, Header: natsgo.Header{
		headerType: {l.Type}, headerVersion: {strconv.Itoa(l.Version)},
		jetstream.MsgIDHeader: {fmt.Sprintf("golda-retry-%d-%d-%d", l.Sequence, l.Published.UnixNano(), l.at)},
	}}
	if l.partition != "" {
		toPartition(m, l.partition)
	}
	if _, err := i.conn.js.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("nats: inlet %q: retry letter %d: %w", i.name, l.Sequence, explain(err))
	}
	return i.Drop(ctx, l)
}

// Drop removes a letter for good. A letter that is not there is no error.
func (i *Inlet[C]) Drop(ctx context.Context, l Letter) error {
	link.CheckContext(ctx, "nats: Drop")
	if l.at == 0 {
		return fmt.Errorf("nats: inlet %q: drop: %w", i.name, errNoLetter)
	}
	err := i.dead.DeleteMsg(ctx, l.at)
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && api.ErrorCode == 10043 || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // no message found
		if _, get := i.dead.GetMsg(ctx, l.at); errors.Is(get, jetstream.ErrMsgNotFound) {
			return nil
		}
	}
	return fmt.Errorf("nats: inlet %q: drop letter %d: %w", i.name, l.Sequence, explain(err))
}
