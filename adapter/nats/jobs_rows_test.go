package nats_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// list returns the jobs that a filter chooses.
func list(t require.TestingT, of *nats.Inlet[string], f jobs.Filter) (all []jobs.Job) {
	for j, err := range of.Jobs(context.Background(), f) {
		require.NoError(t, err)
		all = append(all, j)
	}
	return all
}

// texts returns the commands of jobs.
func texts(all []jobs.Job) (texts []string) {
	for _, j := range all {
		texts = append(texts, string(j.Data))
	}
	return texts
}

func TestJobsAreListedByStateIDAndKeyAPageAtATime(t *testing.T) {
	t.Parallel()
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", ofJobs())
	for k := range 3 {
		publishJob(t, queue, jobs.Spec{ID: strconv.Itoa(k)}, "now")
		publishJob(t, queue, jobs.Spec{Key: strconv.Itoa(k), In: time.Hour}, "later")
	}
	publishJob(t, queue, jobs.Spec{Key: "k"}, "key")
	publishJob(t, queue, jobs.Spec{}, "plain")
	require.NoError(t, queue.Schedule(t.Context(), jobs.Schedule{Name: "s", Every: time.Hour}, "no job yet"))

	q := func(s string) string { return strconv.Quote(s) }
	now, later := q("now"), q("later")
	require.Equal(t, []string{now, now, now, q("key"), q("plain"), later, later, later}, texts(list(t, queue, jobs.Filter{})))
	require.Equal(t, []string{later, later, later}, texts(list(t, queue, jobs.Filter{State: jobs.Delayed})))
	require.Len(t, list(t, queue, jobs.Filter{State: jobs.Pending}), 5)
	require.Empty(t, list(t, queue, jobs.Filter{State: jobs.InFlight}))
	require.Empty(t, list(t, queue, jobs.Filter{State: jobs.Dead}))
	require.Empty(t, list(t, queue, jobs.Filter{Type: "other"}))
	require.Len(t, list(t, queue, jobs.Filter{Type: "string"}), 8)
	one := list(t, queue, jobs.Filter{ID: "1"})
	require.Len(t, one, 1)
	require.Equal(t, jobs.Info{ID: "1"}, one[0].Info)
	one = list(t, queue, jobs.Filter{Key: "1"})
	require.Len(t, one, 1)
	require.Equal(t, "1", one[0].Key)
	require.WithinDuration(t, time.Now().Add(time.Hour), one[0].Due, time.Minute)

	var paged []jobs.Job
	for f := (jobs.Filter{Limit: 3}); ; f.After = paged[len(paged)-1].Place {
		page := list(t, queue, f)
		paged = append(paged, page...)
		if len(page) < 3 {
			break
		}
	}
	require.Equal(t, list(t, queue, jobs.Filter{}), paged)
	for _, err := range queue.Jobs(t.Context(), jobs.Filter{After: "x1"}) {
		require.ErrorContains(t, err, "Filter.After is not the Place of a job")
	}
}

func TestAJobIsCanceledOrRunNow(t *testing.T) {
	t.Parallel()
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", ofJobs())
	for _, id := range []string{"cancel", "run", "wait"} {
		publishJob(t, queue, jobs.Spec{ID: id, In: time.Hour}, id)
	}
	publishJob(t, queue, jobs.Spec{ID: "pending"}, "pending")
	for _, id := range []string{"cancel", "pending"} {
		j := list(t, queue, jobs.Filter{ID: id})[0]
		for _, is := range []bool{true, false} {
			canceled, err := queue.Cancel(t.Context(), j)
			require.NoError(t, err)
			require.Equal(t, is, canceled)
		}
	}
	h, work := record()
	newPipeline(t, work, queue.Feed)
	j := list(t, queue, jobs.Filter{ID: "run"})[0]
	due, err := queue.RunNow(t.Context(), j)
	require.NoError(t, err)
	require.True(t, due)
	h.await(t, "run")
	due, err = queue.RunNow(t.Context(), j)
	require.NoError(t, err)
	require.False(t, due)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Len(c, list(c, queue, jobs.Filter{}), 1)
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, h.times("run"), 1)
	require.Empty(t, h.times("cancel"))
	require.Empty(t, h.times("pending"))
}

func TestADeadJobIsListedAndCanceled(t *testing.T) {
	t.Parallel()
	o := ofJobs()
	o.Retry.Attempts = 1
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
	publishJob(t, queue, jobs.Spec{ID: "a"}, "a")
	newPipeline(t, stage.Func("fail", func(context.Context, string) behaviour.Outcome {
		return behaviour.Error(context.Canceled)
	}), queue.Feed)
	var all []jobs.Job
	require.Eventually(t, func() bool {
		all = list(t, queue, jobs.Filter{State: jobs.Dead, ID: "a"})
		return len(all) == 1
	}, time.Minute, 10*time.Millisecond)
	canceled, err := queue.Cancel(t.Context(), all[0])
	require.NoError(t, err)
	require.True(t, canceled, "the letter is dropped")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Empty(c, list(c, queue, jobs.Filter{})) // the server removes the message after the letter was stored
	}, time.Minute, 10*time.Millisecond)
}
