package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// row returns the only job that a filter chooses, when there is one.
func row(t *testing.T, of *nats.Inlet[string], f jobs.Filter) jobs.Job {
	t.Helper()
	var all []jobs.Job
	require.Eventually(t, func() bool {
		all = list(t, of, f)
		return len(all) == 1
	}, time.Minute, 5*time.Millisecond, "%+v", f)
	return all[0]
}

func TestAJobInFlightIsCanceledInWhicheverProcessHasIt(t *testing.T) {
	t.Parallel()
	quietly := func(o nats.Options[string]) nats.Options[string] {
		o.Logger = slog.New(slog.DiscardHandler)
		return o
	}
	for name, o := range map[string]nats.Options[string]{"without lanes": quietly(ofJobs()), "with lanes": quietly(ofLanes())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
			begun, causes := make(chan string, 8), make(chan error, 8)
			result := map[string]error{"urgent fails": errors.New("no"), "urgent succeeds": nil}
			var feeding []*nats.Inlet[string]
			for range 2 {
				process := inlet(t, connect(t, s.ClientURL()), "queue", o)
				newPipeline(t, stage.Sink("work", func(ctx context.Context, cmd string) error {
					begun <- cmd
					<-ctx.Done()
					causes <- context.Cause(ctx)
					if err, ok := result[cmd]; ok {
						return err
					}
					return ctx.Err()
				}), process.Feed)
				feeding = append(feeding, process)
			}
			queue := inlet(t, connect(t, s.ClientURL()), "queue", o)
			deadline, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Hour))
			defer cancel()
			for cmd, job := range map[string]jobs.Spec{
				"urgent id": {ID: "a"}, "urgent key": {Key: "k"}, "urgent later": {ID: "b", In: 10 * time.Millisecond},
				"urgent plain": {}, "urgent fails": {Key: "f"}, "urgent succeeds": {Key: "s"}, "urgent until": {Key: "u"},
			} {
				ctx := t.Context()
				if job.Key == "u" {
					ctx = deadline
				}
				added, err := queue.PublishJob(ctx, job, cmd)
				require.NoError(t, err)
				require.True(t, added)
				require.Equal(t, cmd, <-begun)
				canceled, err := queue.Cancel(t.Context(), row(t, queue, jobs.Filter{State: jobs.InFlight}))
				require.NoError(t, err, cmd)
				require.True(t, canceled, cmd)
				require.ErrorIs(t, <-causes, jobs.ErrCanceled)
				j := row(t, queue, jobs.Filter{State: jobs.Dead, ID: job.ID, Key: job.Key})
				require.Equal(t, job.ID, j.ID)
				for l, err := range queue.Letters(t.Context()) {
					require.NoError(t, err)
					require.Equal(t, reason.Cancelled, l.Reason)
					require.NoError(t, queue.Drop(t.Context(), l))
				}
				if job.Key == "k" {
					publishJob(t, queue, job, "urgent key again")
					require.Equal(t, "urgent key again", <-begun)
					_, err := queue.Cancel(t.Context(), row(t, queue, jobs.Filter{State: jobs.InFlight}))
					require.NoError(t, err)
					<-causes
					require.NoError(t, queue.Drop(t.Context(), letter(t, queue)))
				}
			}
			require.Eventually(t, func() bool {
				a, b := feeding[0].Counts(), feeding[1].Counts()
				return a.DeadLettered+b.DeadLettered == 8 && a.InFlight+b.InFlight == 0
			}, time.Minute, 5*time.Millisecond, "each is dead, and not acknowledged nor given back")
			lawful(t, feeding[0].Counts())
			require.Zero(t, eventualStatus(t, queue, func(s nats.Status) bool { return s.Pending == 0 }).InFlight)
			require.Empty(t, begun)
		})
	}
}

// letter returns the only letter of an inlet.
func letter(t *testing.T, of *nats.Inlet[string]) (only nats.Letter) {
	t.Helper()
	n := 0
	for l, err := range of.Letters(t.Context()) {
		require.NoError(t, err)
		only = l
		n++
	}
	require.Equal(t, 1, n)
	return only
}

func TestAJobThatNoProcessHandlesIsCanceledAndTheErrorSaysThatNoneHasAnswered(t *testing.T) {
	for name, feeds := range map[string]bool{"a process feeds": true, "no process feeds": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ofJobs()
			o.Retry.Backoff, o.Retry.Max = time.Hour, time.Hour
			o.Logger = slog.New(slog.DiscardHandler)
			queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
			p := newPipeline(t, stage.Func("fail", func(context.Context, string) behaviour.Outcome {
				return behaviour.Error(errors.New("no"))
			}), queue.Feed)
			publishJob(t, queue, jobs.Spec{Key: "k"}, "a")
			require.Eventually(t, func() bool { return queue.Counts().GivenBack == 1 }, time.Minute, 5*time.Millisecond)
			if !feeds {
				require.NoError(t, p.Stop(t.Context()))
			}
			j := row(t, queue, jobs.Filter{State: jobs.InFlight})
			canceled, err := queue.Cancel(t.Context(), j)
			require.ErrorContains(t, err, "no process has answered that it handles it")
			require.True(t, canceled)
			require.Equal(t, reason.Cancelled, letter(t, queue).Reason)
			require.NoError(t, queue.Drop(t.Context(), letter(t, queue)))
			require.Empty(t, list(t, queue, jobs.Filter{}))
			canceled, err = queue.Cancel(t.Context(), j)
			require.NoError(t, err)
			require.False(t, canceled)
			publishJob(t, queue, jobs.Spec{Key: "k"}, "a")
		})
	}
}

func TestAJobIsCanceledThoughItsProcessDrains(t *testing.T) {
	t.Parallel()
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", ofJobs())
	begun := make(chan struct{})
	p, err := pipeline.New("test", pipeline.Feed("feed", stage.Sink("work", func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}), queue.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	publishJob(t, queue, jobs.Spec{}, "a")
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "stopped" }, time.Minute, time.Millisecond)
	canceled, err := queue.Cancel(t.Context(), row(t, queue, jobs.Filter{State: jobs.InFlight}))
	require.NoError(t, err)
	require.True(t, canceled)
	require.NoError(t, <-stopped)
}

func TestACancelThatTheUserMayNotAskForNamesTheSubject(t *testing.T) {
	t.Parallel()
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "all", Password: "p"},
		{Username: "some", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"golda.cancel.>"}}}},
	}})
	begun, release := make(chan struct{}), make(chan struct{})
	newPipeline(t, stage.Sink("work", func(context.Context, string) error {
		close(begun)
		<-release
		return nil
	}), inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo("all", "p")), "queue", ofJobs()).Feed)
	queue := inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo("some", "p")), "queue", ofJobs())
	publishJob(t, queue, jobs.Spec{}, "a")
	<-begun
	_, err := queue.Cancel(t.Context(), row(t, queue, jobs.Filter{State: jobs.InFlight}))
	close(release)
	require.ErrorContains(t, err, `the server does not permit "golda.cancel.queue"`)
}
