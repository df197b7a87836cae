package nats_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// ofJobs are the options of a job queue whose messages are delivered again soon.
func ofJobs() nats.Options[string] {
	return nats.Options[string]{Jobs: true, AckWait: time.Second, Retry: stage.RetryPolicy{Backoff: 10 * time.Millisecond}}
}

// recorded has the commands that a stage has handled.
type recorded struct {
	mu  sync.Mutex // guards the rest
	all map[string][]time.Time
	of  map[string]jobs.Info
}

// record returns a stage that records its commands.
func record() (*recorded, *stage.Flow[string, string]) {
	h := &recorded{all: map[string][]time.Time{}, of: map[string]jobs.Info{}}
	return h, stage.Map("record", func(ctx context.Context, cmd string) (string, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all[cmd] = append(h.all[cmd], time.Now())
		h.of[cmd], _ = jobs.Of(ctx)
		return cmd, nil
	})
}

// times returns when a command was handled.
func (h *recorded) times(cmd string) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[cmd]
}

func (h *recorded) info(cmd string) jobs.Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[cmd]
}

// await waits until a command was handled.
func (h *recorded) await(t *testing.T, cmd string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.times(cmd)) > 0 }, time.Minute, 5*time.Millisecond, cmd)
}

// publishJob publishes a job that the server must add.
func publishJob(t *testing.T, to *nats.Inlet[string], job jobs.Spec, cmd string) {
	t.Helper()
	added, err := to.PublishJob(t.Context(), job, cmd)
	require.NoError(t, err)
	require.True(t, added, "%+v", job)
}

// noJob publishes a job that must be a duplicate.
func noJob(t *testing.T, to *nats.Inlet[string], job jobs.Spec, cmd string) {
	t.Helper()
	added, err := to.PublishJob(t.Context(), job, cmd)
	require.NoError(t, err)
	require.False(t, added, "%+v", job)
}

func TestAJobIsDeliveredWhenItIsDueAndNotBefore(t *testing.T) {
	t.Parallel()
	for _, memory := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory %v", memory), func(t *testing.T) {
			t.Parallel()
			o := ofJobs()
			o.Memory = memory
			queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
			h, work := record()
			newPipeline(t, work, queue.Feed)

			at := time.Now().Add(1500 * time.Millisecond)
			publishJob(t, queue, jobs.Spec{At: at, ID: "a"}, "at")
			in := time.Now()
			publishJob(t, queue, jobs.Spec{In: time.Second}, "in")
			publishJob(t, queue, jobs.Spec{At: time.Unix(1, 0), Key: "k"}, "past")
			publishJob(t, queue, jobs.Spec{ID: "now"}, "now")
			publishJob(t, queue, jobs.Spec{In: time.Hour}, "later")

			for _, cmd := range []string{"now", "past", "in", "at"} {
				h.await(t, cmd)
			}
			require.False(t, h.times("at")[0].Before(at))
			require.False(t, h.times("in")[0].Before(in.Add(time.Second)))
			require.Equal(t, jobs.Info{ID: "a", Due: at.UTC()}, h.info("at"))
			require.Equal(t, jobs.Info{Key: "k", Due: time.Unix(1, 0).UTC()}, h.info("past"))
			require.Equal(t, jobs.Info{ID: "now"}, h.info("now"))
			require.Empty(t, h.times("later"))
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				s, err := queue.Status(t.Context())
				require.NoError(c, err)
				require.EqualValues(c, 1, s.Delayed)
				require.Zero(c, s.Pending)
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

func TestTheSecondJobOfAnIDOrAKeyIsADuplicate(t *testing.T) {
	t.Parallel()
	o := ofJobs()
	o.Dedup = 100 * time.Millisecond
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
	publishJob(t, queue, jobs.Spec{ID: "a", In: 2 * time.Second}, "a")
	publishJob(t, queue, jobs.Spec{Key: "a", In: 2 * time.Second}, "by key")
	publishJob(t, queue, jobs.Spec{Key: "b"}, "b")
	time.Sleep(3 * o.Dedup) // the server has forgotten the ID
	noJob(t, queue, jobs.Spec{ID: "a", In: time.Hour}, "never")
	noJob(t, queue, jobs.Spec{Key: "a", In: time.Hour}, "never")
	noJob(t, queue, jobs.Spec{Key: "b"}, "never")
	require.EqualValues(t, 3, queue.Counts().Duplicates)

	release := make(chan struct{})
	h, work := record()
	block := stage.Map("block", func(ctx context.Context, cmd string) (string, error) {
		if cmd == "b" {
			<-release
		}
		return cmd, nil
	})
	p, err := pipeline.New("test", pipeline.Feed("feed", block, queue.Feed), block.To(work), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	h.await(t, "a")
	h.await(t, "by key")
	noJob(t, queue, jobs.Spec{Key: "b"}, "never") // it is being handled
	close(release)
	h.await(t, "b")
	require.Eventually(t, func() bool {
		added, err := queue.PublishJob(t.Context(), jobs.Spec{Key: "b"}, "again")
		return err == nil && added
	}, time.Minute, 5*time.Millisecond)
	h.await(t, "again")
	require.Empty(t, h.times("never"))
}

func TestAJobCarriesItsDeadline(t *testing.T) {
	t.Parallel()
	o := ofJobs()
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
	short, cancel := stage.WithDeadline(t.Context(), time.Now().Add(3*time.Second))
	defer cancel()
	_, err := queue.PublishJob(short, jobs.Spec{In: time.Minute}, "never")
	require.ErrorContains(t, err, "the deadline of the job passes before it is due")
	added, err := queue.PublishJob(short, jobs.Spec{In: time.Second}, "late")
	require.NoError(t, err)
	require.True(t, added)
	ends := make(chan time.Time, 8)
	newPipeline(t, stage.Sink("wait", func(ctx context.Context, _ string) error {
		end, _ := ctx.Deadline()
		ends <- end
		<-ctx.Done()
		return ctx.Err()
	}), queue.Feed)
	until, _ := short.Deadline()
	require.WithinDuration(t, until, <-ends, 500*time.Millisecond)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for l, err := range queue.Letters(t.Context()) {
			require.NoError(c, err)
			require.Equal(c, reason.Expired, l.Reason)
			return
		}
		require.Fail(c, "no letter")
	}, time.Minute, 10*time.Millisecond)
}

func TestAJobIsRefusedThatSaysTwoThings(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	queue, plain := inlet(t, conn, "queue", ofJobs()), inlet(t, conn, "plain", nats.Options[string]{})
	for text, job := range map[string]jobs.Spec{
		"Spec has an ID and a Key: use one of them": {ID: "a", Key: "b"},
		"Spec has At and In: use one of them":       {At: time.Now(), In: time.Second},
		"Spec.In is -1s, and must not be negative":  {In: -time.Second},
	} {
		_, err := queue.PublishJob(t.Context(), job, "")
		require.ErrorContains(t, err, `nats: inlet "queue": `+text)
	}
	_, err := plain.PublishJob(t.Context(), jobs.Spec{}, "")
	require.EqualError(t, err, `nats: inlet "plain": it is no job queue: set Options.Jobs`)
	require.ErrorContains(t, plain.Schedule(t.Context(), jobs.Schedule{}, ""), "set Options.Jobs")
	require.ErrorContains(t, queue.Schedule(t.Context(), jobs.Schedule{Name: "a b"}, ""), `Schedule.Name "a b" must be of`)
}

func TestAnInletWithoutJobsLeavesAJobQueueAsItIs(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	queue := inlet(t, conn, "queue", ofJobs())
	inlet(t, conn, "queue", nats.Options[string]{})
	publishJob(t, queue, jobs.Spec{ID: "a"}, "a")
	h, work := record()
	newPipeline(t, work, queue.Feed)
	h.await(t, "a")
}

func TestAPeriodicCommandHasOneMessageATime(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	h, work := record()
	var queues []*nats.Inlet[string]
	for range 3 {
		q := inlet(t, conn, "queue", ofJobs())
		queues = append(queues, q)
	}
	newPipeline(t, work, queues[0].Feed)
	for _, q := range queues {
		require.NoError(t, q.Schedule(t.Context(), jobs.Schedule{Name: "tick", Every: time.Second}, "tick"))
	}
	all, err := queues[2].Schedules(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, jobs.Schedule{Name: "tick", Every: time.Second}, all[0].Schedule)
	require.Eventually(t, func() bool { return len(h.times("tick")) >= 3 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, queues[1].Schedule(t.Context(), jobs.Schedule{Name: "tick", Cron: "* * * * *"}, "changed"))
	n := len(h.times("tick"))
	removed, err := queues[1].Unschedule(t.Context(), "tick")
	require.NoError(t, err)
	require.True(t, removed)
	removed, err = queues[1].Unschedule(t.Context(), "tick")
	require.NoError(t, err)
	require.False(t, removed)
	time.Sleep(1500 * time.Millisecond)
	require.LessOrEqual(t, len(h.times("tick")), n+1)
	times := h.times("tick")
	require.GreaterOrEqual(t, times[2].Sub(times[0]), 1500*time.Millisecond)
	require.Equal(t, "tick", h.info("tick").Schedule)
}
