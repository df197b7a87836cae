package nats_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/stage"
)

func TestAJobThatWaitsIsMovedToAnotherLane(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	o := ofLanes()
	o.Retry.Attempts = 1
	o.Logger = slog.New(slog.DiscardHandler)
	queue := inlet(t, conn, "queue", o)
	deadline, cancel := stage.WithDeadline(t.Context(), time.Now().Add(2*time.Hour))
	defer cancel()
	specs := map[string]jobs.Spec{
		"bulk id": {ID: "a"}, "bulk key": {Key: "k"}, "bulk plain": {}, "bulk later": {ID: "b", In: time.Hour},
		"bulk later key": {Key: "l", In: time.Hour}, "bulk named": {Lane: "normal", ID: "n"},
	}
	for cmd, spec := range specs {
		added, err := queue.PublishJob(deadline, spec, cmd)
		require.NoError(t, err)
		require.True(t, added)
	}
	all := list(t, queue, jobs.Filter{})
	require.Len(t, all, len(specs))
	for k, j := range all {
		lane := []string{"urgent", "normal"}[k%2] // one of them has it already
		for range 2 {                             // there, and on to the last one
			moved, err := queue.SetLane(t.Context(), j, lane)
			require.NoError(t, err)
			require.True(t, moved)
			if j.Lane != lane {
				moved, err := queue.SetLane(t.Context(), j, "bulk")
				require.NoError(t, err)
				require.False(t, moved, "it is in another place")
			}
			for _, now := range list(t, queue, jobs.Filter{Lane: lane}) {
				if string(now.Data) == string(j.Data) {
					require.Equal(t, j.Info, now.Info)
					require.Equal(t, j.State, now.State)
					j = now
				}
			}
			require.Equal(t, lane, j.Lane)
			lane = "urgent"
		}
	}
	require.Len(t, list(t, queue, jobs.Filter{Lane: "urgent"}), len(specs))
	require.Len(t, list(t, queue, jobs.Filter{}), len(specs), "none is there twice")
	for cmd, spec := range specs {
		if spec != (jobs.Spec{}) {
			noJob(t, queue, spec, cmd)
		}
	}
	h, work := record()
	newPipeline(t, work, queue.Feed)
	for _, j := range list(t, queue, jobs.Filter{State: jobs.Delayed}) {
		due, err := queue.RunNow(t.Context(), j)
		require.NoError(t, err)
		require.True(t, due)
	}
	for cmd, spec := range specs {
		h.await(t, cmd)
		require.Equal(t, jobs.Info{ID: spec.ID, Key: spec.Key}, jobs.Info{ID: h.info(cmd).ID, Key: h.info(cmd).Key})
	}
	eventualStatus(t, queue, func(s nats.Status) bool { return s.Pending == 0 && s.Delayed == 0 })
	for cmd := range specs {
		require.Len(t, h.times(cmd), 1)
	}
	moved, err := queue.SetLane(t.Context(), all[0], "normal")
	require.NoError(t, err)
	require.False(t, moved)
}

func TestAJobThatIsMovedPassesABacklogAndKeepsItsDeadlineAndItsID(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	o := ofLanes()
	o.MaxInFlight, o.Retry.Attempts = 1, 1
	o.Logger = slog.New(slog.DiscardHandler)
	queue := inlet(t, conn, "queue", o)
	for k := range 40 {
		publishJob(t, queue, jobs.Spec{ID: strconv.Itoa(k)}, fmt.Sprint("bulk ", k))
	}
	until := time.Now().Add(time.Hour)
	deadline, cancel := stage.WithDeadline(t.Context(), until)
	defer cancel()
	_, err := queue.PublishJob(deadline, jobs.Spec{ID: "last"}, "bulk last")
	require.NoError(t, err)
	time.Sleep(time.Second) // the deadline does not move with the job
	moved, err := queue.SetLane(t.Context(), row(t, queue, jobs.Filter{ID: "last"}), "urgent")
	require.NoError(t, err)
	require.True(t, moved)
	var before atomic.Int32
	handled := make(chan time.Time, 1)
	newPipeline(t, stage.Sink("work", func(ctx context.Context, cmd string) error {
		if cmd == "bulk last" {
			end, _ := ctx.Deadline()
			handled <- end
			return context.Canceled
		}
		if len(handled) == 0 {
			before.Add(1)
		}
		return nil
	}, stage.Workers(1, 1)), queue.Feed)
	end := <-handled
	require.WithinDuration(t, until, end, 500*time.Millisecond)
	require.Less(t, before.Load(), int32(20))
	require.Equal(t, "last", row(t, queue, jobs.Filter{State: jobs.Dead}).ID)
	require.Equal(t, "last", letter(t, queue).ID)
}

func TestAJobInFlightOrDeadIsNotMovedAndALaneMustBeThere(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	o := ofLanes()
	o.Retry.Attempts = 1
	o.Logger = slog.New(slog.DiscardHandler)
	queue, plain := inlet(t, conn, "queue", o), inlet(t, conn, "plain", ofJobs())
	publishJob(t, queue, jobs.Spec{Key: "k"}, "bulk a")
	publishJob(t, plain, jobs.Spec{}, "a")
	j := row(t, queue, jobs.Filter{})
	_, err := queue.SetLane(t.Context(), j, "slow")
	require.EqualError(t, err, `nats: inlet "queue": set the lane of job a1: the lane "slow" is none of bulk, normal, urgent`)
	_, err = plain.SetLane(t.Context(), row(t, plain, jobs.Filter{}), "slow")
	require.EqualError(t, err, `nats: inlet "plain": set the lane of job a1: it has no lanes: set Options.Lanes`)
	_, err = queue.SetLane(t.Context(), jobs.Job{}, "bulk")
	require.ErrorContains(t, err, "is not the Place of a job")
	begun, release := make(chan struct{}), make(chan struct{})
	newPipeline(t, stage.Sink("work", func(context.Context, string) error {
		close(begun)
		<-release
		return context.Canceled
	}), queue.Feed)
	<-begun
	_, err = queue.SetLane(t.Context(), j, "urgent")
	require.ErrorContains(t, err, "it is in flight")
	require.Len(t, list(t, queue, jobs.Filter{}), 1)
	close(release)
	moved, err := queue.SetLane(t.Context(), row(t, queue, jobs.Filter{State: jobs.Dead}), "urgent")
	require.NoError(t, err)
	require.False(t, moved)
}

// The server refuses to remove the job from its lane, as if the process were killed before it asks.
func TestAJobIsInTwoLanesIfItsMoveIsCutShortAndOneOfThemCanBeCanceled(t *testing.T) {
	t.Parallel()
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "all", Password: "p"},
		{Username: "some", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.MSG.DELETE.>"}}}},
	}})
	queue := inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo("all", "p")), "queue", ofLanes())
	some := inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo("some", "p")), "queue", ofLanes())
	specs := map[string]jobs.Spec{"bulk id": {ID: "a"}, "bulk key": {Key: "k"}, "bulk plain": {}}
	for cmd, spec := range specs {
		publishJob(t, queue, spec, cmd)
	}
	for _, j := range list(t, queue, jobs.Filter{}) {
		_, err := some.SetLane(t.Context(), j, "urgent")
		require.ErrorContains(t, err, "the server does not permit")
		if j.ID+j.Key != "" {
			moved, err := queue.SetLane(t.Context(), j, "normal")
			require.NoError(t, err)
			require.False(t, moved, "only the copy is the last one of its ID or key")
			noJob(t, queue, jobs.Spec{ID: j.ID, Key: j.Key}, "bulk again")
		}
	}
	require.Len(t, list(t, queue, jobs.Filter{Lane: "urgent"}), 3)
	for _, j := range list(t, queue, jobs.Filter{ID: "a", Lane: "bulk"}) {
		canceled, err := queue.Cancel(t.Context(), j)
		require.NoError(t, err)
		require.True(t, canceled)
	}
	h, work := record()
	newPipeline(t, work, queue.Feed)
	eventualStatus(t, queue, func(s nats.Status) bool { return s.Pending == 0 })
	for cmd, times := range map[string]int{"bulk id": 1, "bulk key": 2, "bulk plain": 2} {
		require.Len(t, h.times(cmd), times, cmd)
	}
}

func TestOfSeveralMovesOfAJobOneCopyStays(t *testing.T) {
	t.Parallel()
	const each, callers = 12, 4
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	o := ofLanes()
	o.MaxInFlight = 4
	queue := inlet(t, connect(t, s.ClientURL()), "queue", o)
	var movers []*nats.Inlet[string]
	for range callers {
		movers = append(movers, inlet(t, connect(t, s.ClientURL()), "queue", o))
	}
	move := func(all []jobs.Job) {
		var moving sync.WaitGroup
		for k, from := range movers {
			moving.Go(func() {
				for _, j := range all {
					_, _ = from.SetLane(t.Context(), j, []string{"urgent", "normal"}[k%2]) // it may be in flight by now
				}
			})
		}
		moving.Wait()
	}
	publish := func(round string) {
		for k := range each {
			publishJob(t, queue, jobs.Spec{ID: fmt.Sprint(round, k)}, fmt.Sprint("bulk id ", round, k))
			publishJob(t, queue, jobs.Spec{Key: fmt.Sprint(round, k)}, fmt.Sprint("bulk key ", round, k))
			publishJob(t, queue, jobs.Spec{}, fmt.Sprint("bulk plain ", round, k))
		}
	}
	publish("at rest ")
	move(list(t, queue, jobs.Filter{}))
	all := list(t, queue, jobs.Filter{})
	require.Len(t, all, 3*each)
	require.Empty(t, list(t, queue, jobs.Filter{Lane: "bulk"}))
	publish("busy ")
	all = list(t, queue, jobs.Filter{})
	var records [2]*recorded
	for k := range records {
		h, work := record()
		records[k] = h
		newPipeline(t, work, inlet(t, connect(t, s.ClientURL()), "queue", o).Feed)
	}
	move(all)
	eventualStatus(t, queue, func(s nats.Status) bool { return s.Pending == 0 })
	for _, j := range all {
		cmd, err := strconv.Unquote(string(j.Data))
		require.NoError(t, err)
		require.NotEmpty(t, append(records[0].times(cmd), records[1].times(cmd)...), "%s is lost", cmd)
	}
}
