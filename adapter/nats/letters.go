package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage/reason"
)

// The headers of dead letters, beside the headers of the message.
const (
	headerReason     = "Golda-Reason"
	headerError      = "Golda-Error"
	headerDeliveries = "Golda-Deliveries"
	headerSequence   = "Golda-Sequence"
	headerPublished  = "Golda-Published"
	headerID         = "Golda-Id"
	headerCut        = "Golda-Cut"
)

// letterRoom is how many bytes of the largest message are kept free for the
// headers of its dead letter.
const letterRoom = 4 << 10

// The reasons of a [Letter] that package reason lacks.
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

// buryOne stores a letter, and then ends its message. If the process is killed
// between the two steps both exist, and the inlet finds the letter when the
// message is delivered again. While the server does not store the letter, the
// message stays in flight; other messages do not wait for it.
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
	if t.isLate() {
		t.running.Go(func() { t.buryLate(l) })
		return
	}
	if err := t.store(l); err != nil {
		t.notStored(l, err)
		t.running.Go(func() { t.buryLate(l) })
		return
	}
	t.buriedNow(l)
}

// buriedNow ends the message of a letter that is stored.
func (t *tracker) buriedNow(l letter) {
	t.log.Error("dead letter", "sequence", l.d.seq, "letter", l.reason, "deliveries", l.d.deliveries(), "reason", l.err)
	t.end(l.d)
}

// buryLate tries to store a letter again and again, until the server has stored
// it or the tracker is stopped.
func (t *tracker) buryLate(l letter) {
	t.setLate(1)
	defer t.setLate(-1)
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		select {
		case <-time.After(pause):
		case <-t.stopped.Done():
			return
		}
		err := t.store(l)
		if err == nil {
			t.buriedNow(l)
			return
		}
		t.notStored(l, err)
	}
}

// notStored logs why the server did not store a letter, and what the operator
// can do.
func (t *tracker) notStored(l letter, err error) {
	do := "none is needed if the server comes back"
	if _, denied := errors.AsType[*denial](err); denied {
		do = "permit the subject to the user of this connection"
	} else if errors.Is(err, ErrFull) {
		do = "make room: retry or drop letters, or raise the limit of the stream or of the server"
	}
	t.log.Warn("a dead letter was not stored; the inlet tries again, and its message stays in flight",
		"sequence", l.d.seq, "letter", l.reason, "reason", err, "action", do)
}

// isLate reports whether letters wait because the server did not store them.
// The next letter waits beside them.
func (t *tracker) isLate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late > 0
}

// setLate changes the number of letters that wait because the server did not
// store them.
func (t *tracker) setLate(change int) {
	t.mu.Lock()
	t.late += change
	t.mu.Unlock()
	ring(t.freed)
}

// end has the server drop a message that is a dead letter.
func (t *tracker) end(d *delivery) { t.terms <- d }

// store stores a letter: as a whole or, if the server refuses a message of that
// size, with as much of the data as the server accepts. It returns nil if the
// server has the letter already.
func (t *tracker) store(l letter) error {
	m := t.letterOf(l)
	err := t.storeMessage(m)
	for _, shorten := range []func(*natsgo.Msg, int64){withoutHeaders, withoutEnd, withoutData} {
		if !isTooLarge(err) {
			break
		}
		shorten(m, t.conn.MaxPayload())
		if err = t.storeMessage(m); err == nil && m.Header.Get(headerCut) != "" {
			t.log.Error("the server does not take the whole letter of a message, and its data or headers are cut; raise MaxPayload to keep large data",
				"sequence", l.d.seq, "bytes", len(l.d.message().Data), "kept", len(m.Data), "missing", m.Header.Get(headerCut), "max_payload", t.conn.MaxPayload())
		}
	}
	if isThere(err) {
		return nil
	}
	return explain(err)
}

// storeMessage publishes the message of a letter. If the stream of letters was
// removed, storeMessage makes it first.
func (t *tracker) storeMessage(m *natsgo.Msg) error {
	ctx, cancel := context.WithTimeout(t.stopped, longestRetry)
	defer cancel()
	return t.denials.ask(ctx, func(subject string) bool { return subject == pattern(m.Subject) }, func(ctx context.Context) error {
		_, err := t.js.PublishMsg(ctx, m)
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			return err
		}
		if err := t.makeDead(ctx); err != nil {
			return err
		}
		_, err = t.js.PublishMsg(ctx, m)
		return err
	})
}

// isTooLarge reports whether an error means that the server, or the stream,
// refuses a message because of its size.
func isTooLarge(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, natsgo.ErrMaxPayload) || ok && (api.ErrorCode == largeMessage || api.ErrorCode == largeHeaders)
}

// The codes of the server's errors that a message is larger than its stream
// allows, and that its headers are larger than 64 KiB.
const (
	largeMessage jetstream.ErrorCode = 10054
	largeHeaders jetstream.ErrorCode = 10097
)

// withoutHeaders removes all headers of a letter but the headers of this
// package, and cuts the text of its error and headers of another program's
// making that are long.
func withoutHeaders(m *natsgo.Msg, _ int64) {
	for name := range m.Header {
		if !slices.Contains(letterHeaders, name) {
			delete(m.Header, name)
		}
	}
	if text := m.Header.Get(headerError); len(text) > shortError {
		m.Header.Set(headerError, strings.ToValidUTF8(text[:shortError], ""))
	}
	cut := 0
	for _, name := range []string{headerType, headerVersion, headerPartition} {
		if text := m.Header.Get(name); len(text) > longHeader {
			m.Header.Set(name, strings.ToValidUTF8(text[:longHeader], ""))
			cut += len(text) - longHeader
		}
	}
	if cut > 0 {
		m.Header.Set(headerCut, strconv.Itoa(cut))
	}
}

const (
	shortError = 64   // bytes that withoutHeaders leaves of the text of an error
	longHeader = 1024 // bytes that it leaves of a header that the program which published the message has set
)

// letterHeaders are the headers of each letter.
var letterHeaders = []string{
	headerReason, headerError, headerDeliveries, headerSequence, headerPublished, headerType, headerVersion, headerPartition,
}

// withoutEnd cuts the data of a letter to the size that the server accepts.
func withoutEnd(m *natsgo.Msg, most int64) {
	cutTo(m, int(most)-m.Size()+len(m.Data)-len(headerCut)-cutRoom)
}

// cutRoom is the size of the header headerCut without its name, at most.
const cutRoom = 24

// withoutData removes the data of a letter.
func withoutData(m *natsgo.Msg, _ int64) { cutTo(m, 0) }

// cutTo cuts the data of a letter, and writes into a header how many bytes are
// missing.
func cutTo(m *natsgo.Msg, most int) {
	before, _ := strconv.Atoi(m.Header.Get(headerCut))
	most = max(0, min(most, len(m.Data)))
	m.Header.Set(headerCut, strconv.Itoa(before+len(m.Data)-most))
	m.Data = m.Data[:most]
}

// isThere reports whether an error of the server means that it has the letter
// already: a subject of the stream of dead letters has one letter.
func isThere(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && strings.Contains(api.Description, "maximum messages per subject")
}

// letterOf returns the message of a letter.
func (t *tracker) letterOf(l letter) *natsgo.Msg {
	from := l.d.message()
	m := &natsgo.Msg{Subject: t.subjectOf(l.d), Data: from.Data, Header: keptHeaders(from.Header)}
	m.Header.Set(headerReason, string(l.reason))
	m.Header.Set(headerError, verdict.Text(l.err))
	m.Header.Set(headerDeliveries, strconv.Itoa(l.d.deliveries()))
	m.Header.Set(headerSequence, strconv.FormatUint(l.d.seq, 10))
	m.Header.Set(headerPublished, l.d.at.UTC().Format(time.RFC3339Nano))
	return m
}

// keptHeaders returns the headers of a message that a copy of it keeps, and its
// ID in a header that the server leaves alone. The server would obey the others.
func keptHeaders(of natsgo.Header) natsgo.Header {
	kept := natsgo.Header{}
	if id := of.Get(jetstream.MsgIDHeader); id != "" {
		kept.Set(headerID, id)
	}
	for name, values := range of {
		if !strings.HasPrefix(name, "Nats-") {
			kept[name] = values // also the ID of a copy
		}
	}
	return kept
}

// subjectOf returns the subject of a message's letter. No two messages have the
// same.
func (t *tracker) subjectOf(d *delivery) string { return t.names.deadSubject + "." + d.key() }

// key returns the sequence of a message and the time when it was published. The
// sequence alone does not identify a message: a stream that was removed and
// made again starts at one, and a stream that lost its last messages in a power
// cut gives their sequences to other messages, while the letters of the old
// ones are kept.
func (d *delivery) key() string { return fmt.Sprintf("%d-%d", d.seq, d.at.UnixNano()) }

// buried reports whether a message has a letter: then the process that stored
// the letter was killed before it ended the message. While the server does not
// answer buried waits, until ctx ends.
func (t *tracker) buried(ctx context.Context, dead jetstream.Stream, d *delivery) bool {
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		ask, cancel := context.WithTimeout(ctx, longestRetry)
		_, err := dead.GetLastMsgForSubject(ask, t.subjectOf(d))
		cancel()
		switch {
		case err == nil || errors.Is(err, jetstream.ErrMsgNotFound):
			return err == nil
		case ctx.Err() != nil: // the pipeline stops, and gives the message back
			return false
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
	Payload                  // the published command, except for the bytes counted in Cut
	Cut        int           // how many bytes of the data are missing at the end, because the server did not take them: see Store.MaxPayload
	ID         string        // of the message; empty if it had none
	Reason     reason.Reason // reason.Error, reason.Crash, reason.Expired, reason.Cancelled, Undecodable, UnknownType or Deliveries
	Err        string        // the text of the error, cut after 1 KiB
	Deliveries int           // how often it was delivered; 0 of a job that was canceled
	Sequence   uint64        // of the message in the inlet's stream
	Published  time.Time
	Buried     time.Time // when it became a dead letter

	at        uint64 // its sequence in the stream of dead letters
	partition string // of the message; empty if it had none
}

// Letters returns the dead letters, the oldest first. It reads each letter when
// the loop reaches it, so letters that are added during the loop are included.
// If the server does not return a letter, the error is the last element.
func (i *Inlet[C]) Letters(ctx context.Context) iter.Seq2[Letter, error] {
	link.CheckContext(ctx, "nats: Letters")
	return func(yield func(Letter, error) bool) {
		for next := uint64(1); ; {
			var m *jetstream.RawStreamMsg
			err := i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) (err error) {
				m, err = i.dead.GetMsg(ctx, next, jetstream.WithGetMsgSubject(i.names.deadSubject+".*"))
				return err
			})
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
	l.Cut, _ = strconv.Atoi(m.Header.Get(headerCut))
	l.Deliveries, _ = strconv.Atoi(m.Header.Get(headerDeliveries))
	l.Sequence, _ = strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	l.Published, _ = time.Parse(time.RFC3339Nano, m.Header.Get(headerPublished))
	return l
}

// isRemoved reports whether an error of the server means that there was no
// message to remove.
func isRemoved(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == 10043 || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful)
}

// errNoLetter refuses a Letter that Letters has not returned.
var errNoLetter = errors.New("the letter is none that Letters has returned")

// Retry publishes the message of a letter to the inlet again, as a new message
// without the ID, and drops the letter. If the process is killed between the
// two steps, the letter stays; a second Retry within the time of
// [Options.Dedup] publishes no second message. Retry refuses a letter whose
// data are not complete, see Letter.Cut.
func (i *Inlet[C]) Retry(ctx context.Context, l Letter) error {
	link.CheckContext(ctx, "nats: Retry")
	if l.at == 0 {
		return fmt.Errorf("nats: inlet %q: retry: %w", i.name, errNoLetter)
	}
	if l.Cut > 0 {
		return fmt.Errorf("nats: inlet %q: retry letter %d: %d bytes of it are missing", i.name, l.Sequence, l.Cut)
	}
	m := &natsgo.Msg{Data: l.Data, Header: natsgo.Header{
		headerType: {l.Type}, headerVersion: {strconv.Itoa(l.Version)},
		jetstream.MsgIDHeader: {fmt.Sprintf("golda-retry-%d-%d-%d", l.Sequence, l.Published.UnixNano(), l.at)},
	}}
	i.address(m, l.partition, "")
	err := i.conn.denials.unlessDenied(ctx, m.Subject, time.Now(), func(ctx context.Context) error {
		_, err := i.conn.js.PublishMsg(ctx, m)
		return err
	})
	if err != nil {
		return fmt.Errorf("nats: inlet %q: retry letter %d: %w", i.name, l.Sequence, explain(err))
	}
	return i.Drop(ctx, l)
}

// Drop removes a letter for good. It returns nil if the letter was removed
// before.
func (i *Inlet[C]) Drop(ctx context.Context, l Letter) error {
	link.CheckContext(ctx, "nats: Drop")
	if l.at == 0 {
		return fmt.Errorf("nats: inlet %q: drop: %w", i.name, errNoLetter)
	}
	err := i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error { return i.dead.DeleteMsg(ctx, l.at) })
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if isRemoved(err) {
		if _, get := i.dead.GetMsg(ctx, l.at); errors.Is(get, jetstream.ErrMsgNotFound) {
			return nil
		}
	}
	return fmt.Errorf("nats: inlet %q: drop letter %d: %w", i.name, l.Sequence, explain(err))
}
