package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
)

// Options says how a process takes part. The zero Options is useful.
type Options struct {
	// Name is the name of the process, for people. Give each process another
	// one, that stays the same when it is restarted if there is such a name.
	// Empty means the host's name and the number of the process.
	Name string
	// Every is how often the process says that it is there: after three times
	// without that it is lost. 0 means two seconds, 10 ms is the least and an
	// hour the most. Each message goes to all processes of the pipeline, so set
	// more for hundreds of them.
	Every time.Duration
	// Wait is how long a snapshot waits for processes that do not answer. 0
	// means a second.
	Wait time.Duration
	// Law says how many workers are wanted; see [Inlet]. Target is how long the
	// messages that wait may take, and 0 means ten seconds here; Utilization is
	// how busy workers and CPUs may be, and 0 means 0.7. The rest is not used.
	Law policy.Backlog
	// Drain is called with the name of an operator of the fleet that asks this
	// process to stop taking work: see [Fleet.Drain]. It begins that, or does it,
	// and returns; an error is the operator's answer. Usually it ends the context
	// that the pipeline runs with. Ctx ends when the process leaves. Nil refuses.
	// It is called for one operator at a time.
	Drain func(ctx context.Context, operator string) error
	// Dashboard is the *dashboard.Dashboard of the pipeline. With it a dashboard
	// of the fleet has the letters, the journal, the workers at work, the keys
	// and the windows of this process, as this one shows them: commands only
	// with its dashboard.Options.Payloads. All that it answers to a GET without
	// a token may be read by every client that may publish to golda.fleet.> on
	// the server. It is called by one goroutine, and not after Leave. Nil: they
	// stay in the process. [Observe] does not use it.
	Dashboard http.Handler
}

// The defaults and bounds of Options.
const (
	defaultEvery  = 2 * time.Second
	leastEvery    = 10 * time.Millisecond
	mostEvery     = time.Hour
	defaultWait   = time.Second
	defaultTarget = 10 * time.Second
	longestName   = 256
)

// check returns all that is wrong.
func (o Options) check() error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(len(o.Name) > longestName, "Name has %d bytes, and may have %d", len(o.Name), longestName)
	fault(o.Every != 0 && (o.Every < leastEvery || o.Every > mostEvery),
		"Every is %v, and must be from %v to %v; use 0 for %v", o.Every, leastEvery, mostEvery, defaultEvery)
	fault(o.Wait < 0, "Wait is %v; use 0 for %v", o.Wait, defaultWait)
	if err := o.Law.Check(); err != nil {
		errs = append(errs, fmt.Errorf("Law: %w", err))
	}
	return errors.Join(errs...)
}

// filled returns the options with their defaults.
func (o Options) filled(host string) Options {
	if o.Name == "" {
		o.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Law.Target == 0 {
		o.Law.Target = defaultTarget
	}
	return o
}

// Fleet is a process's view of all processes that run a pipeline. Any goroutine
// may call its methods.
type Fleet struct {
	pipeline string
	o        Options
	conn     *nats.Conn
	nc       *natsgo.Conn
	p        *pipeline.Pipeline // nil if it only observes
	self     announcement       // the part that does not change
	subjects subjects
	roster   *roster
	joined   time.Time
	draining atomic.Bool // Options.Drain is being called

	mu    sync.Mutex // guards meter and known
	meter meter
	known map[string]bool // the inlets that were in a snapshot: they are asked for when all processes are gone and forgotten

	stop    context.CancelFunc
	stopped context.Context
	running sync.WaitGroup
	once    sync.Once
	left    error
}

// Join adds this process to the fleet of its pipeline. Until [Fleet.Leave], or
// until the Conn is closed, the process announces itself to the others and
// answers their questions. Join does not wait for the other processes. The
// pipeline need not run yet.
//
// The inlets of the process are the inlets of the Conn that feed the pipeline.
// One error has all faults of the options. A nil conn or pipeline panics.
func Join(ctx context.Context, conn *nats.Conn, p *pipeline.Pipeline, o Options) (*Fleet, error) {
	link.CheckContext(ctx, "fleet: Join")
	if p == nil {
		panic("fleet: Join: the pipeline is nil")
	}
	return open(ctx, conn, p, p.Name(), o)
}

// Observe is [Join] for a process that does not run the pipeline, such as a
// command or a dashboard: it is in no snapshot. It knows the inlets that
// processes of the pipeline have, or have had while it observed them, and the
// inlets of the Conn that feed no other pipeline. So an observer that must know
// how many processes are wanted while none runs makes the inlet itself, as a
// process that publishes does.
func Observe(ctx context.Context, conn *nats.Conn, pipeline string, o Options) (*Fleet, error) {
	link.CheckContext(ctx, "fleet: Observe")
	return open(ctx, conn, nil, pipeline, o)
}

func open(ctx context.Context, conn *nats.Conn, p *pipeline.Pipeline, name string, o Options) (*Fleet, error) {
	if conn == nil {
		panic("fleet: the Conn is nil")
	}
	f := &Fleet{pipeline: name, conn: conn, nc: conn.JetStream().Conn(), p: p, subjects: subjectsOf(name), roster: newRoster(), known: map[string]bool{}}
	if err := f.open(ctx, o); err != nil {
		return nil, fmt.Errorf("fleet %q: %w", name, err)
	}
	return f, nil
}

func (f *Fleet) open(ctx context.Context, o Options) error {
	if f.pipeline == "" || !utf8.ValidString(f.pipeline) {
		return errors.New("the pipeline has no name that can be shown")
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	f.o, f.joined = o.filled(host), time.Now()
	f.self = announcement{
		Format: format, ID: natsgo.NewInbox()[len(natsgo.InboxPrefix):], Name: f.o.Name, Host: host, PID: os.Getpid(),
		Started: f.joined.UTC(), Every: f.o.Every, Answers: f.p != nil && f.o.Dashboard != nil,
	}
	if f.p != nil {
		s := f.p.Snapshot()
		f.meter.add(read(f.p, f.conn, &s, f.joined))
	}
	arrivals := make(chan *natsgo.Msg, arrivalsRoom)
	inbox := f.nc.NewInbox()
	closed := f.nc.StatusChanged(natsgo.CLOSED)
	reads := make(chan *natsgo.Msg, readRoom)
	channels := map[string]chan *natsgo.Msg{f.subjects.all: arrivals, inbox: arrivals}
	if f.self.Answers {
		channels[f.subjects.get+f.self.ID] = reads
	}
	var subs []*natsgo.Subscription
	unsubscribe := func() {
		f.nc.RemoveStatusListener(closed)
		for _, s := range subs {
			_ = s.Unsubscribe() // the connection is closed, then
		}
	}
	for subject, channel := range channels {
		sub, err := f.nc.ChanSubscribe(subject, channel)
		if err != nil {
			unsubscribe()
			return f.away(err)
		}
		subs = append(subs, sub)
	}
	f.stopped, f.stop = context.WithCancel(context.Background())
	connected, cancel := context.WithCancel(f.stopped)
	f.running.Go(func() {
		defer cancel()
		f.run(arrivals, closed, inbox)
		unsubscribe()
	})
	if f.self.Answers {
		f.running.Go(func() { f.serveReads(connected, reads) })
	}
	f.announce(false)
	err = f.ask(question{Gone: true}, inbox)
	if err != nil {
		f.stop()
		f.running.Wait()
	}
	return err
}

// arrivalsRoom is how many messages wait for the goroutine of a fleet at most.
// Further ones are dropped: beats come again.
const arrivalsRoom = 8192

// run answers the others, and says that the process is there.
func (f *Fleet) run(arrivals <-chan *natsgo.Msg, closed <-chan natsgo.Status, inbox string) {
	beats := time.NewTicker(f.o.Every)
	defer beats.Stop()
	last := time.Now()
	for {
		select {
		case m := <-arrivals:
			f.take(m, inbox)
		case <-beats.C:
			now := time.Now()
			if now.Sub(last) > 2*f.o.Every { // this process stood still
				f.roster.excuse(now)
			}
			last = now
			f.beat(now)
		case <-closed:
			return
		case <-f.stopped.Done():
			return
		}
	}
}

// beat measures, says that the process is there, and looks which ones are lost.
func (f *Fleet) beat(now time.Time) {
	if f.p != nil {
		s := f.p.Snapshot()
		r := read(f.p, f.conn, &s, now)
		f.mu.Lock()
		f.meter.add(r)
		f.mu.Unlock()
	}
	if f.nc.IsConnected() { // else it would be sent later, and wrong
		f.announce(false)
		f.roster.look(now)
	} else {
		f.roster.excuse(now)
	}
}

// take takes a message of another process, or of this one.
func (f *Fleet) take(m *natsgo.Msg, inbox string) {
	switch m.Subject {
	case f.subjects.news:
		var a announcement
		if readable(json.Unmarshal(m.Data, &a)) && a.valid() {
			f.roster.hear(a, time.Now())
		}
	case f.subjects.ask:
		f.answer(m)
	case f.subjects.do:
		f.obey(m)
	case inbox:
		r, ok := reportOf(m)
		if !ok {
			return
		}
		now := time.Now()
		f.roster.hear(r.announcement, now)
		for _, d := range r.Gone[:min(len(r.Gone), mostGone)] {
			if d.valid() {
				f.roster.hearOf(d, now)
			}
		}
	}
}

// valid reports whether an announcement has all that it must have.
func (a *announcement) valid() bool {
	if a.Every < leastEvery || a.Every > mostEvery {
		a.Every = defaultEvery
	}
	return a.ID != "" && len(a.ID) <= longestName && a.Name != "" && len(a.Name) <= longestName
}

// readable reports whether a message was read, or all of it but fields whose
// types are others in another version.
func readable(err error) bool {
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || other
}

// reportOf reads a report.
func reportOf(m *natsgo.Msg) (r report, ok bool) {
	ok = readable(json.Unmarshal(m.Data, &r)) && r.valid()
	return r, ok
}

// announcement returns what the process says of itself, and its snapshot.
func (f *Fleet) announcement() (announcement, pipeline.Snapshot) {
	a, s := f.self, f.p.Snapshot()
	r := read(f.p, f.conn, &s, time.Now())
	f.mu.Lock()
	a.Units, a.Inlets = f.meter.measure(r)
	a.CPUs = f.meter.computing(r, a.Units)
	f.mu.Unlock()
	a.Stages = stagesOf(&s)
	return a, s
}

// announce says that the process is there, or that it has left.
func (f *Fleet) announce(left bool) {
	if f.p == nil {
		return
	}
	a, _ := f.announcement()
	a.Left = left
	_ = f.send(f.subjects.news, a) // the next beat says it again
}

// send sends a value as JSON.
func (f *Fleet) send(subject string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.nc.Publish(subject, data)
}

// ask asks all members. Their answers go to an inbox.
func (f *Fleet) ask(q question, inbox string) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if err := f.nc.PublishRequest(f.subjects.ask, inbox, data); err != nil {
		return f.away(err)
	}
	return nil
}

// answer answers a question.
func (f *Fleet) answer(m *natsgo.Msg) {
	if f.p == nil || m.Reply == "" {
		return
	}
	var q question
	if json.Unmarshal(m.Data, &q) != nil {
		q = question{}
	}
	if len(q.To) > 0 && !slices.Contains(q.To, f.self.ID) {
		return
	}
	r := report{Letters: letters{f.p.DeadLetters().Len(), f.p.Quarantine().Len(), f.p.Failures().Len()}}
	var s pipeline.Snapshot
	r.announcement, s = f.announcement()
	if q.Gone {
		r.Gone = f.roster.departed(time.Now())
	} else if data, err := encodeState(s); err != nil {
		r.Err = textOf(err)
	} else {
		r.Snapshot = data
	}
	err := f.send(m.Reply, r)
	if errors.Is(err, natsgo.ErrMaxPayload) {
		r.Snapshot, r.Gone, r.Err = nil, nil, "the snapshot is larger than a message may be"
		_ = f.send(m.Reply, r) // the asking process finds it silent
	}
}

// Leave says to the other processes that this one has left, so that it is not
// lost to them, and ends what [Join] has begun. Leave when the pipeline has
// stopped, and before [nats.Conn.Close], after which nothing can be said. It
// waits until the server has been told, at most until ctx ends or for five
// seconds. A second call does nothing, and returns the same.
func (f *Fleet) Leave(ctx context.Context) error {
	link.CheckContext(ctx, "fleet: Leave")
	f.once.Do(func() {
		f.stop()
		f.running.Wait()
		if f.p == nil || f.nc.IsClosed() {
			return
		}
		if !f.nc.IsConnected() {
			f.left = fmt.Errorf("fleet %q: leave: %w", f.pipeline, f.away(natsgo.ErrDisconnected))
			return
		}
		f.announce(true)
		ctx, cancel := context.WithTimeout(ctx, leaveTime)
		defer cancel()
		if err := f.nc.FlushWithContext(ctx); err != nil {
			f.left = fmt.Errorf("fleet %q: leave: %w", f.pipeline, f.away(err))
		}
	})
	return f.left
}

// leaveTime is how long the server may take to hear that a process leaves.
const leaveTime = 5 * time.Second

// errLeft refuses snapshots.
var errLeft = errors.New("the process has left it")

// away returns an error that names the server.
func (f *Fleet) away(err error) error {
	return fmt.Errorf("%w: %s: %w", nats.ErrAway, f.server(), err)
}

// server names the server, without passwords.
func (f *Fleet) server() string {
	if url := f.nc.ConnectedUrlRedacted(); url != "" {
		return url
	}
	for _, url := range f.nc.Servers() {
		return redacted(url)
	}
	return "in this process"
}
