package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
)

// Snapshot is the state of all processes of a pipeline, as one of them sees it.
// It is not of one instant: processes are asked at the same time, and the
// server after them.
type Snapshot struct {
	Pipeline  string
	At        time.Time
	Processes []Process // by name
	Inlets    []Inlet   // by name
}

// State is the state of a process, as far as it is known.
type State string

// The states.
const (
	Alive  State = "alive"  // it has answered
	Silent State = "silent" // it has not answered in time, and was heard of a short time ago
	Lost   State = "lost"   // it was not heard of for three times its Options.Every: it was killed, stands still, or is cut off
	Left   State = "left"   // it has left
)

// Process is one process of a pipeline. A process that is lost or has left is
// kept for an hour, or until one of the same name joins, with the numbers that
// it sent last.
type Process struct {
	Name    string
	Host    string
	PID     int
	Started time.Time // when it joined, by its own clock
	State   State
	Heard   time.Time // when it was heard of last, by the clock of this process: since then it is lost
	Stages  []string  // that run there, by name

	// Snapshot is the state of its pipeline. It is the zero Snapshot of a
	// process that has not answered, and if Err is not nil. Fields that a
	// process of another version does not know are zero.
	Snapshot pipeline.Snapshot
	Err      error // why the snapshot of a process that has answered cannot be read

	said    announcement
	letters letters
}

// Snapshot asks all processes and the server. It returns when all have answered
// that are not known to be lost, or after Options.Wait: then the others are
// Silent or Lost. In the first second after Join it waits for processes that it
// does not know yet.
//
// If the server does not answer, the error is [nats.ErrAway] and names it; if
// it does not know about an inlet, the error names that. The snapshot then has
// all known numbers. If the server does not permit golda.fleet.> to the user of
// the connection, the error wraps the error of [nats.Conn.Healthy], which names
// the subject.
//
// [nats.ErrAway]:
// https://pkg.go.dev/github.com/golda-dev/golda/adapter/nats#ErrAway
func (f *Fleet) Snapshot(ctx context.Context) (Snapshot, error) {
	link.CheckContext(ctx, "fleet: Snapshot")
	s, err := f.snapshot(ctx)
	if err != nil {
		return s, fmt.Errorf("fleet %q: %w", f.pipeline, err)
	}
	return s, nil
}

func (f *Fleet) snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{Pipeline: f.pipeline, At: time.Now()}
	if f.stopped.Err() != nil {
		return s, errLeft
	}
	if !f.nc.IsConnected() {
		return s, f.away(natsgo.ErrDisconnected)
	}
	answers, err := f.gather(ctx)
	if err != nil {
		return s, err
	}
	s.Processes = f.processes(answers)
	s.Inlets, err = f.inlets(ctx, s.Processes)
	return s, errors.Join(f.denied(), err)
}

// denied returns the health of the connection if the server does not permit a
// subject of the fleet: then the snapshot lacks processes.
func (f *Fleet) denied() error {
	err := f.conn.Healthy()
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		return nil
	}
	for _, subject := range []string{f.subjects.all, f.subjects.news, f.subjects.ask, f.subjects.do, f.subjects.get + f.self.ID} {
		if strings.Contains(err.Error(), strconv.Quote(subject)) {
			return err
		}
	}
	return nil
}

// settle is how long after a fleet was joined its members have answered the
// first question, unless they are silent.
const settle = time.Second

// askAgain is after which time members that have not answered are asked again:
// they may have joined after the question.
const askAgain = 250 * time.Millisecond

// gather asks all members, and returns their answers by ID.
func (f *Fleet) gather(ctx context.Context) (map[string]report, error) {
	inbox := f.nc.NewInbox()
	arrivals := make(chan *natsgo.Msg, mostMembers)
	sub, err := f.nc.ChanSubscribe(inbox, arrivals)
	if err != nil {
		return nil, f.away(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection is closed, then
	if err := f.ask(question{}, inbox); err != nil {
		return nil, err
	}
	limit := time.NewTimer(f.o.Wait)
	defer limit.Stop()
	known := f.joined.Add(min(f.o.Wait, settle)) // from then on all members are
	settled := time.NewTimer(time.Until(known))
	defer settled.Stop()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	answers := map[string]report{}
	for len(f.roster.awaited(answers)) > 0 || time.Now().Before(known) {
		select {
		case m := <-arrivals:
			if r, ok := reportOf(m); ok && f.roster.hear(r.announcement, time.Now()) {
				answers[r.ID] = r
			}
		case <-again.C:
			if missing := f.roster.awaited(answers); len(missing) > 0 {
				if err := f.ask(question{To: missing[:min(len(missing), mostAsked)]}, inbox); err != nil {
					return nil, err
				}
			}
		case <-settled.C:
		case <-limit.C:
			return answers, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.stopped.Done():
			return nil, errLeft
		}
	}
	return answers, nil
}

// processes joins the entries of the roster with the answers of the processes.
func (f *Fleet) processes(answers map[string]report) []Process {
	members := f.roster.list()
	all := make([]Process, 0, len(members))
	for _, m := range members {
		p := Process{
			Name: m.Name, Host: m.Host, PID: m.PID, Started: m.Started, Heard: m.heard, Stages: m.Stages,
			State: Silent, said: m.announcement,
		}
		r, answered := answers[m.ID]
		switch {
		case m.Left:
			p.State = Left
		case answered:
			p.State = Alive
			p.Snapshot, p.Err = r.state()
			p.letters = r.Letters
		case m.lost:
			p.State = Lost
		}
		all = append(all, p)
	}
	return all
}

// state returns the snapshot of a report.
func (r *report) state() (s pipeline.Snapshot, err error) {
	switch {
	case r.Format > format:
		return s, fmt.Errorf("its format is %d, and this process knows up to %d", r.Format, format)
	case r.Err != "":
		return s, errors.New(r.Err)
	case len(r.Snapshot) == 0:
		return s, errors.New("it has sent no snapshot")
	}
	if s, err = decodeState(r.Snapshot); err != nil {
		return pipeline.Snapshot{}, err
	}
	return s, nil
}

// inlets asks the server for all inlets. One that only processes have had that
// are gone may have been removed.
func (f *Fleet) inlets(ctx context.Context, processes []Process) (all []Inlet, err error) {
	names := f.inletNames(processes)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		own, cancel := context.WithTimeout(ctx, max(f.o.Wait, leastWait))
		status, failed := f.conn.Status(own, name)
		cancel()
		switch {
		case failed == nil:
			all = append(all, newInlet(name, status, processes, f.o.Law))
		case !f.nc.IsConnected():
			return all, f.away(failed)
		case errors.Is(failed, jetstream.ErrStreamNotFound) && !names[name]:
			f.forget(name)
		default:
			err = errors.Join(err, failed)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range all {
		f.known[i.Name] = true
	}
	return all, err
}

// inletNames returns the names of the inlets that are or were known, and
// whether a process has the inlet now.
func (f *Fleet) inletNames(processes []Process) map[string]bool {
	f.mu.Lock()
	names := make(map[string]bool, len(f.known))
	for name := range f.known {
		names[name] = false
	}
	f.mu.Unlock()
	for _, i := range f.conn.Inlets() {
		if i.Pipeline == "" || i.Pipeline == f.pipeline {
			names[i.Name] = true
		}
	}
	for i := range processes {
		p := &processes[i]
		for _, l := range p.said.Inlets {
			names[l.Name] = names[l.Name] || p.State == Alive || p.State == Silent
		}
	}
	return names
}

// forget forgets an inlet that is not there any more.
func (f *Fleet) forget(inlet string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, inlet)
}

// leastWait is how long the server may take to answer, whatever Options.Wait
// is.
const leastWait = time.Second

// redacted returns a URL without its password.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a server whose URL cannot be read"
	}
	return u.Redacted()
}
