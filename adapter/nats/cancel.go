package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/reason"
)

// A job in flight is canceled in three steps: its message is removed, so that
// it is not delivered again; it becomes a dead letter; and the processes that
// feed stages are asked which of them has it. That one ends the context of its
// command, answers, and ignores how the command ends.

// Cancel removes a job that [Inlet.Jobs] has returned, and reports whether it
// was still where it was. If it was not, look for it again: it may have become
// due, or have ended. A job that a process receives at the same time may be
// handled all the same.
//
// A job in flight is not delivered again, and becomes a dead letter with
// [reason.Cancelled]. The context of its handler ends, in whichever process, with
// the cause [jobs.ErrCanceled]; so does the context of each handler of a command
// that has resulted from it. The handler may go on, and its result is ignored.
// The handler of a batch is not told, nor is a process that a stage has called.
// If no process answers within five seconds, or before ctx ends, that it has the
// job, Cancel returns true and an error: the job may have waited for another
// delivery, or its handler goes on.
func (i *Inlet[C]) Cancel(ctx context.Context, j jobs.Job) (canceled bool, err error) {
	link.CheckContext(ctx, "nats: Cancel")
	if canceled, err = i.cancel(ctx, j); err != nil {
		err = fmt.Errorf("nats: inlet %q: cancel job %s: %w", i.name, j.Place, err)
	}
	return canceled, err
}

func (i *Inlet[C]) cancel(ctx context.Context, j jobs.Job) (bool, error) {
	now, err := i.look(ctx, j)
	if err != nil || now == nil {
		return false, err
	}
	removed, err := i.remove(ctx, now.stream, now.Sequence)
	if err != nil || !removed || now.row().State != jobs.InFlight {
		return removed, err
	}
	d := &delivery{seq: now.Sequence, of: i.tracker, msg: &natsgo.Msg{Header: now.Header, Data: now.Data}, at: now.Time}
	return true, errors.Join(i.tracker.store(letter{d, reason.Cancelled, jobs.ErrCanceled}), i.askCancel(ctx, d))
}

// remove removes the message of a job, and reports whether it was there.
func (i *Inlet[C]) remove(ctx context.Context, from jetstream.Stream, sequence uint64) (removed bool, err error) {
	err = i.conn.denials.ask(ctx, i.names.requests, func(ctx context.Context) error { return from.DeleteMsg(ctx, sequence) })
	if isRemoved(err) {
		return false, nil
	}
	return err == nil, i.conn.explain(err)
}

// cancelTime is how long a process may take to answer that it has a job.
const cancelTime = 5 * time.Second

// errUnheard is the error of a job whose process does not answer.
var errUnheard = errors.New("it is not delivered again, but no process has answered that it handles it: it waited for another delivery, or its process has ended, or is cut off; " +
	"if its handler must not go on, look for the process, and stop it")

// askCancel has the process that has a job in flight end its context.
func (i *Inlet[C]) askCancel(ctx context.Context, d *delivery) error {
	short, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	err := i.conn.denials.unlessDenied(short, i.names.cancel, time.Now(), func(ctx context.Context) error {
		_, err := i.conn.nc.RequestWithContext(ctx, i.names.cancel, []byte(d.key()))
		return err
	})
	if errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
		return errUnheard
	}
	return i.conn.explain(err)
}

// hearCancels returns a channel of requests to cancel jobs, and a function that
// ends that. It has none if the messages are no jobs, or the connection is
// closed.
func (t *tracker) hearCancels() (requests chan *natsgo.Msg, end func()) {
	if !t.cancels {
		return nil, func() {}
	}
	requests = make(chan *natsgo.Msg, mostCancels)
	sub, err := t.conn.ChanSubscribe(t.names.cancel, requests)
	if err != nil {
		return nil, func() {}
	}
	return requests, func() { _ = sub.Unsubscribe() } // or the connection is closed
}

// mostCancels is how many requests to cancel jobs may wait in a process. More
// are lost, and their senders learn that no process has answered.
const mostCancels = 1 << 10

// cancel ends the context of the command of a job, and says so, if the job is in
// flight here.
func (t *tracker) cancel(request *natsgo.Msg) {
	sequence, _, _ := strings.Cut(string(request.Data), "-")
	seq, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return
	}
	t.mu.Lock()
	d := t.held[seq]
	has := d != nil && !d.answered && !d.ended && d.key() == string(request.Data)
	t.mu.Unlock()
	if !has {
		return
	}
	d.cancel(jobs.ErrCanceled)
	t.log.Info("a job in flight is canceled", "sequence", seq)
	_ = request.Respond(nil) // or else its sender learns that no process has answered
}

// isCanceled reports whether the command was canceled.
func (d *delivery) isCanceled() bool { return d.end != nil && d.end.Err() != nil }
