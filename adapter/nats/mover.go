package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/adapter/nats/jobs"
)

// The server publishes a job that is due in the stream of later jobs. A process
// that feeds a stage moves it to the stream of the inlet: it publishes the
// message there, with the ID that makes a second one a duplicate, and then
// acknowledges the first. If the process is killed between the two, another one
// does both again after AckWait.

const (
	mostMoving = 1024 // jobs that are due and that all processes move at once
	moveAhead  = 64   // jobs that a process asks for at once
	movePause  = time.Second
)

// beginJobs begins to move jobs that are due, of a job queue, and returns a
// function that ends that, and waits.
func (i *Inlet[C]) beginJobs(ctx context.Context) (end func()) {
	if i.jobs == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.moveJobs(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// moveJobs moves jobs that are due until ctx ends.
func (i *Inlet[C]) moveJobs(ctx context.Context) {
	for said := false; ; {
		began := time.Now()
		err := i.moveSome(ctx)
		if ctx.Err() != nil {
			return
		}
		if isGone(err) && (i.o.Memory || errors.Is(err, jetstream.ErrConsumerNotFound)) {
			err = i.makeLater(ctx)
		}
		if time.Since(began) > longestRetry {
			said = false
		}
		if err != nil && !said && !errors.Is(err, jetstream.ErrNoHeartbeat) {
			said = true
			i.o.Logger.Warn("jobs that are due are not delivered; the inlet tries again", "inlet", i.name, "reason", explain(err))
		}
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
			return
		}
	}
}

// moveSome moves jobs that are due until something is wrong or ctx ends.
func (i *Inlet[C]) moveSome(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	consumer, err := i.conn.js.Consumer(ask, i.names.later, consumerName)
	if err != nil {
		return err
	}
	due, err := consumer.Messages(jetstream.PullMaxMessages(moveAhead), jetstream.PullExpiry(pullTime), jetstream.PullHeartbeat(beatTime))
	if err != nil {
		return err
	}
	defer giveBackDue(due)
	for {
		m, err := due.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if err := i.move(ctx, m); err != nil {
			_ = m.NakWithDelay(movePause) // or else it is delivered again after AckWait
			return err
		}
		if err := m.Ack(); err != nil {
			return err
		}
	}
}

// giveBackDue gives back the jobs that have arrived and were not moved, to any
// process.
func giveBackDue(due jetstream.MessagesContext) {
	due.Drain()
	for {
		m, err := due.Next(jetstream.NextMaxWait(movePause))
		if err != nil {
			due.Stop()
			return
		}
		_ = m.NakWithDelay(time.Millisecond) // see tracker.again
	}
}

// move publishes the job or the periodic command of a message that is due.
func (i *Inlet[C]) move(ctx context.Context, m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	rest := strings.TrimPrefix(m.Subject(), i.names.laterSubject+".due.")
	if name, gen, ok := planFrom(rest); ok {
		return i.tick(ctx, name, gen, m)
	}
	to, err := i.moved(ctx, m, rest)
	if err != nil {
		return err
	}
	_, err = i.publishFirst(ctx, to)
	if errors.Is(err, ErrTooLarge) {
		i.o.Logger.Error("a job that is due is larger than the server takes by now, and is lost", "inlet", i.name, "id", to.Header.Get(jetstream.MsgIDHeader))
		return nil
	}
	return err
}

// moved returns the message of the inlet's stream of a job that is due.
func (i *Inlet[C]) moved(ctx context.Context, m jetstream.Msg, token string) (*natsgo.Msg, error) {
	to := &natsgo.Msg{Data: m.Data(), Header: keptHeaders(m.Headers())}
	to.Header.Set(jetstream.MsgIDHeader, to.Header.Get(headerID))
	delete(to.Header, headerID)
	word := token
	if strings.HasPrefix(token, byNo) {
		word = ""
	}
	i.address(to, to.Header.Get(headerPartition), word)
	if strings.HasPrefix(token, byKey) {
		i.replaces(to, 0)
	}
	until := to.Header.Get(headerUntil)
	if until == "" {
		return to, nil
	}
	delete(to.Header, headerUntil)
	end, err := time.Parse(time.RFC3339Nano, until)
	if err != nil {
		to.Header.Set(headerTimeLeft, until) // which makes it undecodable
		return to, nil
	}
	now, _, err := i.serverNow(ctx)
	if err != nil {
		return nil, err
	}
	to.Header.Set(headerTimeLeft, max(end.Sub(now), 0).String())
	return to, nil
}

// deriving returns a function for the context of a job: derive, after the
// context has the job. It is derive itself if the message is no job.
func (q *jobQueue) deriving(h natsgo.Header, derive func(context.Context) context.Context) func(context.Context) context.Context {
	if q == nil {
		return derive
	}
	job := infoOf(h)
	if job == (jobs.Info{}) {
		return derive
	}
	return func(ctx context.Context) context.Context {
		ctx = jobs.With(ctx, job)
		if derive != nil {
			ctx = derive(ctx)
		}
		return ctx
	}
}

// infoOf returns the job that the headers of a message describe.
func infoOf(h natsgo.Header) jobs.Info {
	info := jobs.Info{Key: idFrom(h.Get(headerKey)), Schedule: h.Get(headerSchedule)}
	for _, name := range []string{jetstream.MsgIDHeader, headerID} {
		if id := h.Get(name); id != "" && !strings.HasPrefix(id, "golda-") {
			info.ID = idFrom(id)
		}
	}
	info.Due, _ = time.Parse(time.RFC3339Nano, h.Get(headerDue)) // zero if there is none
	return info
}
