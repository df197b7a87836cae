package nats

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/internal/link"
)

// A schedule is a plan: a message in the stream of later jobs that says which
// command is due next, and when. Beside it there is an alarm, which is a
// message with a schedule of the server. When the alarm is due, one process
// gets it, publishes the command with an ID made of the schedule and its time,
// replaces the plan by one with the next time, and sets the alarm anew. The
// server takes a plan only in place of the one that was read. So whatever
// process is killed, and at which step, a time has one message within the time
// of Options.Dedup, and after it none, because the plan says that it has passed.

// plan is the record of a schedule in the server.
type plan struct {
	Cron     string        `json:",omitempty"`
	Every    time.Duration `json:",omitempty"`
	Missed   jobs.Missed
	Declared time.Time // when, by the clock of the server
	Next     time.Time // when the next command is due
	Gen      string    // another one if the schedule is changed

	Type    string
	Version int
	Command []byte
	Headers map[string][]string `json:",omitempty"` // that the context of the declaration gave it
}

// schedule returns the declared schedule.
func (p plan) schedule(name string) jobs.Schedule {
	return jobs.Schedule{Name: name, Cron: p.Cron, Every: p.Every, Missed: p.Missed}
}

// says reports whether a plan says the same as another one, apart from when.
func (p plan) says(other plan) bool {
	return p.Cron == other.Cron && p.Every == other.Every && p.Missed == other.Missed &&
		slices.Equal(p.Headers[headerPartition], other.Headers[headerPartition]) && p.Type == other.Type && p.Version == other.Version && bytes.Equal(p.Command, other.Command)
}

func (n names) plan(name string) string       { return n.laterSubject + ".plan." + name }
func (n names) alarm(name, gen string) string { return n.plan(name) + "." + gen }
func (n names) alarmDue(name, gen string) string {
	return n.laterSubject + ".due.plan." + name + "." + gen
}

// planFrom returns which alarm a message that is due belongs to, by the end of
// its subject, and whether it is one.
func planFrom(rest string) (name, gen string, ok bool) {
	words := strings.Split(rest, ".")
	if len(words) != 3 || words[0] != "plan" {
		return "", "", false
	}
	return words[1], words[2], true
}

// Schedule declares a periodic command, of an inlet with Options.Jobs: at each
// time of the schedule one command is published, whichever and however many
// processes have declared it, and is delivered as any message. Every process
// may declare it when it starts. Declared again it stays as it is; if the
// schedule or the command is another one, it is changed, and its times start
// anew; processes that declare different ones under one name change it in
// turns. It stays when the processes end, until [Inlet.Unschedule].
//
// Commands are due while a process feeds a stage from the inlet. What becomes
// of the times at which there was none, [jobs.Missed] says.
//
// A time has one command, whatever processes are killed. It may have two if all
// processes are away for longer than Options.Dedup between the publishing of
// the command and the note of that, or if the server is killed in between: it
// forgets the IDs of acknowledged messages. [jobs.Of] says in the handler which
// time it is.
func (i *Inlet[C]) Schedule(ctx context.Context, s jobs.Schedule, cmd C) error {
	link.CheckContext(ctx, "nats: Schedule")
	if err := i.declare(ctx, s, cmd); err != nil {
		return fmt.Errorf("nats: inlet %q: schedule %.128q: %w", i.name, s.Name, err)
	}
	return nil
}

func (i *Inlet[C]) declare(ctx context.Context, s jobs.Schedule, cmd C) error {
	if i.jobs == nil {
		return errNoJobs
	}
	if err := s.Check(); err != nil {
		return err
	}
	m, err := i.message(context.WithoutCancel(ctx), "", cmd)
	if err != nil {
		return err
	}
	if m.Header.Get(headerTimeLeft) != "" {
		return errors.New("the context has a deadline of stage.WithDeadline, which would end all commands of the schedule")
	}
	want := plan{Cron: s.Cron, Every: s.Every, Missed: s.Missed, Gen: rand.Text(), Type: m.Header.Get(headerType), Command: m.Data}
	want.Version, _ = strconv.Atoi(m.Header.Get(headerVersion))
	want.Headers = maps.Clone(m.Header)
	delete(want.Headers, headerType)
	delete(want.Headers, headerVersion)
	for {
		err := i.declareOnce(ctx, s, want)
		if !isTaken(err) { // another process has declared it meanwhile
			return err
		}
	}
}

func (i *Inlet[C]) declareOnce(ctx context.Context, s jobs.Schedule, want plan) error {
	there, at, err := i.plan(ctx, s.Name)
	if err != nil {
		return err
	}
	if at > 0 && there.says(want) {
		return i.setAlarm(ctx, s.Name, there) // it may not be set, if the process that was to set it was killed
	}
	_, now, err := i.serverNow(ctx)
	if err != nil {
		return err
	}
	want.Declared = now.UTC()
	want.Next = s.First(want.Declared)
	if err := i.replacePlan(ctx, s.Name, want, at); err != nil {
		return err
	}
	if at > 0 {
		_ = i.purgeLater(ctx, i.names.alarm(s.Name, there.Gen)) // or else it rings once, and is not heard
	}
	return i.setAlarm(ctx, s.Name, want)
}

// plan returns the plan of a schedule, and its sequence in the stream; 0 if
// there is none.
func (i *Inlet[C]) plan(ctx context.Context, name string) (p plan, at uint64, err error) {
	m, err := i.lastLater(ctx, i.names.plan(name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	if err := json.Unmarshal(m.Data, &p); err != nil {
		return p, 0, fmt.Errorf("its plan cannot be read: %w", err)
	}
	return p, m.Sequence, nil
}

// lastLater returns the last message of a subject of the stream of later jobs.
func (i *Inlet[C]) lastLater(ctx context.Context, subject string) (m *jetstream.RawStreamMsg, err error) {
	err = i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error {
		stream, err := i.conn.js.Stream(ctx, i.names.later)
		if err == nil {
			m, err = stream.GetLastMsgForSubject(ctx, subject)
		}
		return i.conn.explain(err)
	})
	return m, err
}

// purgeLater removes the messages of a subject from the stream of later jobs.
func (i *Inlet[C]) purgeLater(ctx context.Context, subject string) error {
	return i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error {
		stream, err := i.conn.js.Stream(ctx, i.names.later)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		return i.conn.explain(err)
	})
}

// replacePlan stores a plan in the place of the one with a sequence; 0 means
// that there is none. The error is isTaken if there is another one.
func (i *Inlet[C]) replacePlan(ctx context.Context, name string, p plan, at uint64) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	m := &natsgo.Msg{Subject: i.names.plan(name), Data: data, Header: natsgo.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(at, 10)}, jetstream.MsgRollup: {jetstream.MsgRollupSubject},
	}}
	return i.publishLater(ctx, m)
}

// setAlarm has the server say when the next command of a plan is due. It
// replaces the alarm, if it is set already.
func (i *Inlet[C]) setAlarm(ctx context.Context, name string, p plan) error {
	if p.Next.IsZero() {
		return nil
	}
	m := &natsgo.Msg{Subject: i.names.alarm(name, p.Gen), Header: natsgo.Header{}}
	schedule(m, p.Next, i.names.alarmDue(name, p.Gen))
	return i.publishLater(ctx, m)
}

// publishLater publishes a message in the stream of later jobs that is none
// itself.
func (i *Inlet[C]) publishLater(ctx context.Context, m *natsgo.Msg) error {
	return i.conn.denials.unlessDenied(ctx, m.Subject, time.Now(), func(ctx context.Context) error {
		_, err := i.conn.js.PublishMsg(ctx, m)
		if i.isLost(ctx, err) {
			_, err = i.conn.js.PublishMsg(ctx, m)
		}
		return i.conn.explain(err)
	})
}

// tick publishes the commands of a plan that are due, and sets the alarm for
// the next one. It is called when an alarm is due.
func (i *Inlet[C]) tick(ctx context.Context, name, gen string, alarm jetstream.Msg) error {
	for {
		err := i.tickOnce(ctx, name, gen, alarm)
		if !isTaken(err) { // another process has changed the plan meanwhile
			return err
		}
	}
}

func (i *Inlet[C]) tickOnce(ctx context.Context, name, gen string, alarm jetstream.Msg) error {
	p, at, err := i.plan(ctx, name)
	if err != nil || at == 0 || p.Gen != gen { // the alarm is that of a schedule which was changed or removed
		return err
	}
	now, _, err := i.serverNow(ctx)
	if err != nil {
		return err
	}
	if meta, err := alarm.Metadata(); err == nil && meta.Timestamp.After(now) {
		now = meta.Timestamp
	}
	due, next := p.schedule(name).Due(now, p.Next, p.Declared)
	for _, t := range due {
		if _, err := i.publishNow(ctx, i.commandOf(name, p, t)); err != nil {
			return err
		}
	}
	if !next.Equal(p.Next) {
		if p.Next = next; next.IsZero() {
			i.o.Logger.Warn("a schedule has no more times", "inlet", i.name, "schedule", name)
		}
		if err := i.replacePlan(ctx, name, p, at); err != nil {
			return err
		}
	}
	return i.setAlarm(ctx, name, p)
}

// commandOf returns the message of the command of a plan that is due at a time.
func (i *Inlet[C]) commandOf(name string, p plan, due time.Time) *natsgo.Msg {
	m := &natsgo.Msg{Data: p.Command, Header: natsgo.Header{}}
	maps.Copy(m.Header, p.Headers)
	i.address(m, m.Header.Get(headerPartition), "")
	m.Header.Set(headerType, p.Type)
	m.Header.Set(headerVersion, strconv.Itoa(p.Version))
	m.Header.Set(headerSchedule, name)
	m.Header.Set(headerDue, due.UTC().Format(time.RFC3339Nano))
	m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("golda-schedule-%s-%d", name, due.UnixNano()))
	return m
}

// Unschedule removes a schedule, and reports whether there was one. Commands
// that were due are delivered all the same.
func (i *Inlet[C]) Unschedule(ctx context.Context, name string) (removed bool, err error) {
	link.CheckContext(ctx, "nats: Unschedule")
	if err := (jobs.Schedule{Name: name, Every: time.Second}).Check(); err != nil {
		return false, fmt.Errorf("nats: inlet %q: %w", i.name, err)
	}
	removed, err = i.unschedule(ctx, name)
	if err != nil {
		return false, fmt.Errorf("nats: inlet %q: schedule %q: %w", i.name, name, err)
	}
	return removed, nil
}

func (i *Inlet[C]) unschedule(ctx context.Context, name string) (removed bool, err error) {
	if i.jobs == nil {
		return false, errNoJobs
	}
	p, at, err := i.plan(ctx, name)
	if err != nil || at == 0 {
		return false, err
	}
	for _, subject := range []string{i.names.plan(name), i.names.alarm(name, p.Gen), i.names.alarmDue(name, p.Gen)} {
		if err := i.purgeLater(ctx, subject); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Schedules returns the schedules of the inlet, by their names.
func (i *Inlet[C]) Schedules(ctx context.Context) ([]jobs.Scheduled, error) {
	link.CheckContext(ctx, "nats: Schedules")
	all, err := i.schedules(ctx)
	if err != nil {
		return nil, fmt.Errorf("nats: inlet %q: schedules: %w", i.name, err)
	}
	return all, nil
}

func (i *Inlet[C]) schedules(ctx context.Context) (all []jobs.Scheduled, err error) {
	if i.jobs == nil {
		return nil, errNoJobs
	}
	var subjects map[string]uint64
	err = i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error {
		subjects, err = i.conn.laterSubjects(ctx, i.names, i.names.plan("*"))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, subject := range slices.Sorted(maps.Keys(subjects)) {
		name := strings.TrimPrefix(subject, i.names.plan(""))
		p, at, err := i.plan(ctx, name)
		if err != nil {
			return nil, err
		}
		if at > 0 {
			all = append(all, jobs.Scheduled{Schedule: p.schedule(name), Next: p.Next})
		}
	}
	return all, nil
}

// laterSubjects returns the subjects of the stream of later jobs that match a
// pattern, with the number of their messages.
func (c *Conn) laterSubjects(ctx context.Context, n names, match string) (map[string]uint64, error) {
	stream, err := c.js.Stream(ctx, n.later)
	if err != nil {
		return nil, c.explain(err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(match))
	if err != nil {
		return nil, c.explain(err)
	}
	return info.State.Subjects, nil
}
