package nats

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/internal/link"
)

// A job that is due later is a message with a schedule of the server ("@at" of
// JetStream, since 2.12) in a stream of its own: the server allows schedules in
// no stream that refuses messages when it is full, as that of an inlet does,
// and publishes a message that is due in the stream of its schedule only. So
// the processes that feed stages move the messages that are due to the stream
// of the inlet: see mover.go.

// The headers of jobs.
const (
	headerKey      = "Golda-Key"
	headerDue      = "Golda-Due"
	headerUntil    = "Golda-Until" // the deadline, by the clock of the server, of a job that waits for its time
	headerSchedule = "Golda-Schedule"
)

// madeID begins the IDs of jobs to which the user has given none.
const madeID = "golda-job-"

// jobQueue is the state of an inlet with Options.Jobs.
type jobQueue struct {
	mu       sync.Mutex // guards the rest
	there    time.Time  // by the clock of the server, when it was asked last; zero if it was not asked yet
	asked    time.Time  // when that was, at the earliest
	answered time.Time  // and at the latest
}

// The first version of the server that has schedules of messages.
const (
	leastMajorOfJobs = 2
	leastMinorOfJobs = 12
)

// openJobs prepares a job queue, if the options say that it is one.
func (i *Inlet[C]) openJobs() error {
	if !i.o.Jobs {
		return nil
	}
	if i.keys.parts > 0 && i.keys.lanes == nil {
		return errJobsOfKeys
	}
	if v := i.conn.nc.ConnectedServerVersion(); olderThan(v, leastMajorOfJobs, leastMinorOfJobs) {
		return tooOldForJobs(v)
	}
	i.jobs = &jobQueue{}
	return nil
}

func tooOldForJobs(version string) error {
	return fmt.Errorf("Options.Jobs needs a server of the version %d.%d.0 at least, and this one has the version %s: upgrade it, or use nats.Embed",
		leastMajorOfJobs, leastMinorOfJobs, version)
}

var (
	errOlderServer = fmt.Errorf("Options.Jobs needs servers of the version %d.%d.0 at least, and the one of the cluster that has made the stream is older: upgrade it",
		leastMajorOfJobs, leastMinorOfJobs)
	errNoJobs     = errors.New("it is no job queue: set Options.Jobs")
	errJobsOfKeys = errors.New("Options.Jobs is set, and the inlet is that of a keyed stage, which has partitions")
)

// laterStream returns the configuration of the stream of jobs that wait for
// their time, and of plans. Messages that are due have a consumer, and end when
// they are acknowledged; the others stay until they are replaced or purged.
func (o Options[C]) laterStream(n names) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: n.later, Subjects: []string{n.laterSubject + ".>"}, Description: "the jobs of a Golda inlet that wait for their time",
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxBytes: -1, MaxMsgs: -1, Replicas: o.Replicas,
		Duplicates: o.Dedup, Storage: o.storage(), AllowMsgSchedules: true, AllowRollup: true,
	}
}

// makeLater makes the stream of jobs that wait for their time and its consumer,
// or changes them.
func (i *Inlet[C]) makeLater(ctx context.Context) error {
	stream, err := i.conn.ensureStream(ctx, i.o.Logger, i.o.laterStream(i.names))
	if err != nil {
		return fmt.Errorf("its stream of later jobs: %w", err)
	}
	if !stream.CachedInfo().Config.AllowMsgSchedules { // a server of the cluster is older than the one that is connected
		return fmt.Errorf("%w (this one has %s)", errOlderServer, i.conn.nc.ConnectedServerVersion())
	}
	c := i.o.consumer()
	c.FilterSubject, c.MaxAckPending = i.names.laterSubject+".due.>", mostMoving
	if err := i.conn.ensureConsumer(ctx, i.o.Logger, i.names.later, c); err != nil {
		return fmt.Errorf("the consumer of its later jobs: %w", err)
	}
	return nil
}

// serverNow returns the time by the clock of the server: not before
// earliest and not after latest. A machine with other work may take a while to
// ask, and a job must not be early for that.
func (i *Inlet[C]) serverNow(ctx context.Context) (earliest, latest time.Time, err error) {
	q := i.jobs
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.there.IsZero() || time.Since(q.asked) > clockAge {
		if err := i.askTime(ctx, q); err != nil {
			return earliest, latest, err
		}
	}
	return q.there.Add(time.Since(q.answered)), q.there.Add(time.Since(q.asked)), nil
}

// askTime asks the server for its time. The caller has the lock.
func (i *Inlet[C]) askTime(ctx context.Context, q *jobQueue) error {
	ctx, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	asked := time.Now()
	err := i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error {
		stream, err := i.conn.js.Stream(ctx, i.names.later)
		if err == nil {
			q.there, q.asked, q.answered = stream.CachedInfo().TimeStamp, asked, time.Now()
		}
		return err
	})
	return i.conn.explain(err)
}

// The first letter of the last word of the subject of a job says what the rest
// of the word is made of.
const (
	byID  = "i"
	byKey = "k"
	byNo  = "r" // of a job that is due later and has neither
)

// tokenOf returns the last word of the subject of a job: a subject has no word
// of any text.
func tokenOf(by, text string) string {
	sum := sha256.Sum256([]byte(text))
	return by + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])
}

// PublishJob is PublishOnce for a job, of an inlet with Options.Jobs: the
// command is delivered not before it is due, as [jobs.Spec] says. It reports
// whether the job was added: it was not if it is a duplicate of another one by
// its ID or its Key.
//
// When PublishJob has returned nil, the server has the job, and it survives
// that any process and the server are killed. A job that is due is as any
// message: it is delivered at least once, and becomes a dead letter if it
// fails. A deadline of stage.WithDeadline in ctx counts from now on, and must
// be after the job is due. The errors are those of Publish. Publishing a job
// again with the same Spec is safe if it has an ID or a Key.
func (i *Inlet[C]) PublishJob(ctx context.Context, job jobs.Spec, cmd C) (added bool, err error) {
	link.CheckContext(ctx, "nats: PublishJob")
	added, err = i.publishJob(ctx, job, cmd)
	if err != nil {
		i.refused.Add(1)
		return false, fmt.Errorf("nats: inlet %q: %w", i.name, err)
	}
	return added, nil
}

func (i *Inlet[C]) publishJob(ctx context.Context, job jobs.Spec, cmd C) (added bool, err error) {
	if i.jobs == nil {
		return false, errNoJobs
	}
	if err := job.Check(); err != nil {
		return false, err
	}
	m, err := i.messageIn(ctx, job.ID, job.Lane, cmd)
	if err != nil {
		return false, err
	}
	if job.Key != "" {
		if err := i.toKey(m, job.Key); err != nil {
			return false, err
		}
	}
	if !job.At.IsZero() || job.In > 0 {
		if err := i.toLater(ctx, m, job); err != nil {
			return false, err
		}
	}
	return i.publishFirst(ctx, m)
}

// toKey gives a message the subject of its key, and has the server take it only
// if no other message has that key, in any lane.
func (i *Inlet[C]) toKey(m *natsgo.Msg, key string) error {
	if len(key) > longestText {
		return fmt.Errorf("%w: its key has %d bytes, and may have %d", ErrTooLarge, len(key), longestText)
	}
	i.address(m, m.Header.Get(headerPartition), tokenOf(byKey, key))
	m.Header.Set(headerKey, headerOf(key))
	i.replaces(m, 0)
	return nil
}

// replaces has the server take a message of a job only if the last one with the
// same word, in any lane, has a sequence; 0 means that there is none.
func (i *Inlet[C]) replaces(m *natsgo.Msg, last uint64) {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	if i.keys.lanes != nil {
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, i.subjectIn("*", i.wordIn(m.Subject)))
	}
}

// errLate refuses a job whose deadline passes before it is due.
var errLate = errors.New("the deadline of the job passes before it is due")

// toLater makes a message one that waits for its time.
func (i *Inlet[C]) toLater(ctx context.Context, m *natsgo.Msg, job jobs.Spec) error {
	_, now, err := i.serverNow(ctx)
	if err != nil {
		return err
	}
	at := job.At
	if at.IsZero() {
		at = now.Add(job.In)
	}
	h := m.Header
	if left := h.Get(headerTimeLeft); left != "" {
		d, err := time.ParseDuration(left)
		if err != nil {
			return err
		}
		if now.Add(d).Before(at) {
			return fmt.Errorf("%w: at %v, and %v is left", errLate, at.UTC(), d)
		}
		h.Del(headerTimeLeft)
		h.Set(headerUntil, now.Add(d).UTC().Format(time.RFC3339Nano))
	}
	token := cmp.Or(i.wordIn(m.Subject), byNo+rand.Text())
	id := h.Get(jetstream.MsgIDHeader)
	if id == "" {
		id = madeID + rand.Text()
	}
	h.Set(headerID, id)
	h.Set(headerDue, at.UTC().Format(time.RFC3339Nano))
	schedule(m, at, i.names.laterSubject+".due."+token)
	h.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
	delete(h, jetstream.ExpectedLastSubjSeqSubjHeader)
	m.Subject = i.names.laterSubject + ".at." + token
	return nil
}

// schedule has the server publish a message at a time in place of the one that
// it is given.
func schedule(m *natsgo.Msg, at time.Time, target string) {
	m.Header.Set(jetstream.ScheduleHeader, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(jetstream.ScheduleTargetHeader, target)
}

// publishFirst publishes a message, unless it has a subject that only one may
// have and there is another one. It reports whether the message was added.
func (i *Inlet[C]) publishFirst(ctx context.Context, m *natsgo.Msg) (added bool, err error) {
	done, err := i.publishNow(ctx, m)
	if isTaken(err) {
		i.duplicates.Add(1)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return !done.Duplicate, nil
}

// takenCodes are the codes of the server's errors that a subject has another
// last message than was expected.
var takenCodes = []jetstream.ErrorCode{10071, 10164}

// isTaken reports whether the server has refused a message because its subject
// has another one, or another one than was read.
func isTaken(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(takenCodes, api.ErrorCode)
}
