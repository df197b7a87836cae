package nats

import (
	"cmp"
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

	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/internal/link"
)

// Jobs returns the jobs of an inlet with Options.Jobs that a filter chooses:
// jobs in the queue, then jobs that wait for their time, and then dead ones,
// the oldest of each first. It reads a job when the loop reaches it. So
// the list is no snapshot: a job that is due, or fails, during the loop may be
// in it twice or not at all. If the server does not return a job, the error is
// the last element. For a page, set Filter.Limit, and Filter.After to the Place
// of the last job of the page before.
func (i *Inlet[C]) Jobs(ctx context.Context, f jobs.Filter) iter.Seq2[jobs.Job, error] {
	link.CheckContext(ctx, "nats: Jobs")
	return func(yield func(jobs.Job, error) bool) {
		left := f.Limit
		err := i.list(ctx, f, func(j jobs.Job) bool {
			left--
			return yield(j, nil) && left != 0
		})
		if err != nil {
			yield(jobs.Job{}, fmt.Errorf("nats: inlet %q: jobs: %w", i.name, err))
		}
	}
}

// The letters before the sequence in the place of a job say in which stream it
// is, and are in the order in which the streams are read.
const (
	inQueue = "a"
	inLater = "b"
	inDead  = "c"
)

var errPlace = errors.New("Filter.After is not the Place of a job")

// list calls each for the jobs that a filter chooses, until it returns false.
func (i *Inlet[C]) list(ctx context.Context, f jobs.Filter, each func(jobs.Job) bool) error {
	if i.jobs == nil {
		return errNoJobs
	}
	begin, after := inQueue, uint64(0)
	if f.After != "" {
		var err error
		begin = f.After[:1]
		if after, err = strconv.ParseUint(f.After[1:], 10, 64); err != nil || !strings.Contains(inQueue+inLater+inDead, begin) {
			return fmt.Errorf("%w: %.64q", errPlace, f.After)
		}
	}
	for _, in := range []string{inQueue, inLater, inDead} {
		if in < begin || !mayBeIn(f.State, in) {
			continue
		}
		from := uint64(1)
		if in == begin {
			from = after + 1
		}
		goOn, err := i.listOne(ctx, in, from, f, each)
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// mayBeIn reports whether jobs of a state are in a stream.
func mayBeIn(s jobs.State, in string) bool {
	switch s {
	case jobs.Delayed:
		return in == inLater
	case jobs.Pending, jobs.InFlight:
		return in == inQueue
	case jobs.Dead:
		return in == inDead
	default:
		return true
	}
}

// listOne is list for one of the streams, from a sequence on. It reports whether
// the next stream is to be read.
func (i *Inlet[C]) listOne(ctx context.Context, in string, from uint64, f jobs.Filter, each func(jobs.Job) bool) (goOn bool, err error) {
	stream, match, until, err := i.rowsOf(ctx, in, f)
	if err != nil {
		return false, err
	}
	for next := from; ; {
		var m *jetstream.RawStreamMsg
		err := i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) (err error) {
			m, err = stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(match))
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true, nil
		}
		if err != nil {
			return false, i.conn.explain(err)
		}
		next = m.Sequence + 1
		if strings.HasPrefix(m.Subject, i.names.plan("")) {
			continue
		}
		if j := rowOf(m, in, until); f.Has(j) && !each(j) {
			return false, nil
		}
	}
}

// delivered has the sequences up to which the messages of each lane were
// delivered. Without lanes there is one, under the empty name.
type delivered map[string]uint64

// rowsOf returns a stream, the subjects of the jobs in it that a filter may
// choose, and up to which sequence its messages were delivered.
func (i *Inlet[C]) rowsOf(ctx context.Context, in string, f jobs.Filter) (s jetstream.Stream, match string, until delivered, err error) {
	if err := i.keys.lacks(); err != nil {
		return nil, "", nil, err
	}
	err = i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error {
		switch in {
		case inDead:
			s, match = i.dead, ">"
			return nil
		case inLater:
			match = i.names.laterSubject + ".*." + wordOf(f, "*")
			s, err = i.conn.js.Stream(ctx, i.names.later)
			return i.conn.explain(err)
		}
		s, match, until = i.stream, i.matching(f), delivered{}
		for lane, name := range i.consumers() {
			c, err := s.Consumer(ctx, name)
			if err != nil {
				return i.conn.explain(err)
			}
			until[lane] = c.CachedInfo().Delivered.Stream
		}
		return nil
	})
	return s, match, until, err
}

// matching returns the subjects of the jobs in the queue that a filter may
// choose.
func (i *Inlet[C]) matching(f jobs.Filter) string {
	switch word := wordOf(f, ""); {
	case i.keys.lanes != nil:
		return i.subjectIn(cmp.Or(f.Lane, "*"), cmp.Or(word, "*"))
	case word != "":
		return i.subjectIn("", word)
	default:
		return ">"
	}
}

// wordOf returns the last word of the subject of the only job that a filter
// chooses, or otherwise if it chooses more.
func wordOf(f jobs.Filter, otherwise string) string {
	switch {
	case f.Key != "":
		return tokenOf(byKey, f.Key)
	case f.ID != "":
		return tokenOf(byID, f.ID)
	default:
		return otherwise
	}
}

// rowOf returns the job of a message.
func rowOf(m *jetstream.RawStreamMsg, in string, until delivered) jobs.Job {
	j := jobs.Job{
		Info: infoOf(m.Header), State: jobs.Delayed, Type: m.Header.Get(headerType), Data: m.Data, Published: m.Time,
		Lane: m.Header.Get(headerPartition), Sequence: m.Sequence, Place: in + strconv.FormatUint(m.Sequence, 10),
	}
	j.Version, _ = strconv.Atoi(m.Header.Get(headerVersion))
	switch {
	case in == inDead:
		j.State = jobs.Dead
		j.Published, _ = time.Parse(time.RFC3339Nano, m.Header.Get(headerPublished))
	case in == inQueue && m.Sequence <= until[j.Lane]:
		j.State = jobs.InFlight
	case in == inQueue:
		j.State = jobs.Pending
	}
	return j
}

// seen is the message of a job, as it is now.
type seen struct {
	*jetstream.RawStreamMsg

	in     string
	until  delivered
	stream jetstream.Stream
}

// row returns the job.
func (s *seen) row() jobs.Job { return rowOf(s.RawStreamMsg, s.in, s.until) }

// look returns the message of a job, or nil if it is not there any more.
func (i *Inlet[C]) look(ctx context.Context, j jobs.Job) (*seen, error) {
	if i.jobs == nil {
		return nil, errNoJobs
	}
	if j.Place == "" {
		return nil, errPlace
	}
	in := j.Place[:1]
	stream, _, until, err := i.rowsOf(ctx, in, jobs.Filter{})
	if err != nil {
		return nil, err
	}
	var m *jetstream.RawStreamMsg
	err = i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) (err error) {
		m, err = stream.GetMsg(ctx, j.Sequence)
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil //nolint:nilnil // the job is not there any more, which is no error
	}
	return &seen{m, in, until, stream}, i.conn.explain(err)
}

// RunNow makes a job due now that waits for its time, and reports whether it
// still waited. A dead job is tried again by [Inlet.Retry].
func (i *Inlet[C]) RunNow(ctx context.Context, j jobs.Job) (due bool, err error) {
	link.CheckContext(ctx, "nats: RunNow")
	if due, err = i.runNow(ctx, j); err != nil {
		return false, fmt.Errorf("nats: inlet %q: run job %s now: %w", i.name, j.Place, err)
	}
	return due, nil
}

func (i *Inlet[C]) runNow(ctx context.Context, j jobs.Job) (bool, error) {
	now, err := i.look(ctx, j)
	if err != nil || now == nil || now.in != inLater {
		return false, err
	}
	early, _, err := i.serverNow(ctx)
	if err != nil {
		return false, err
	}
	return i.replaceLater(ctx, now, func(m *natsgo.Msg) {
		schedule(m, early, m.Header.Get(jetstream.ScheduleTargetHeader))
		m.Header.Set(headerDue, early.UTC().Format(time.RFC3339Nano))
	})
}

// replaceLater changes the message of a job that waits for its time, and
// reports whether the job still waited.
func (i *Inlet[C]) replaceLater(ctx context.Context, now *seen, change func(m *natsgo.Msg)) (replaced bool, err error) {
	if !strings.HasPrefix(now.Subject, i.names.laterSubject+".at.") {
		return false, nil
	}
	m := &natsgo.Msg{Subject: now.Subject, Data: now.Data, Header: maps.Clone(now.Header)}
	delete(m.Header, jetstream.MsgIDHeader) // it would be a duplicate of itself
	change(m)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(now.Sequence, 10)) // it is the same job, and still waits
	_, err = i.publishNow(ctx, m)
	if isTaken(err) {
		return false, nil
	}
	return err == nil, err
}
