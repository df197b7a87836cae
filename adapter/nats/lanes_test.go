package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func laneOf(a ask) string { return a.Tenant }

// ofLanes are the options of a job queue with lanes. The lane of a command is its first word.
func ofLanes() nats.Options[string] {
	o := ofJobs()
	o.Lanes = map[string]int{"urgent": 8, "normal": 3, "bulk": 1}
	o.Lane = func(cmd string) string {
		var lane string
		_, _ = fmt.Sscan(cmd, &lane)
		return lane
	}
	return o
}

func TestEachLaneGetsItsPartWhileAllHaveMessages(t *testing.T) {
	const processes, inFlight, unit = 2, 12, 20
	weights := map[string]int{"urgent": 8, "normal": 3, "bulk": 1}
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	o := nats.Options[ask]{Lanes: weights, Lane: laneOf, MaxInFlight: inFlight, Memory: true}
	c := newCounter()
	i := inlet(t, connect(t, s.ClientURL()), "asks", o)
	for lane, w := range weights {
		flood(t, i, lane, unit*w+2*processes*inFlight)
	}
	for range processes {
		c.process(t, connect(t, s.ClientURL()), o)
	}
	c.let(t, 12*unit)
	for lane, w := range weights {
		want := w * unit
		// a process that begins may take all its places from the lane that it hears of first
		require.InDelta(t, want, c.of(lane), float64(max(processes*inFlight+6, want/2)), "%s: %v", lane, c.handled)
	}
	require.GreaterOrEqual(t, c.of("bulk"), unit/2, c.handled)
	c.end()
	s1 := eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 })
	require.Equal(t, nats.Status{Published: uint64(12*unit + 3*2*processes*inFlight)}, s1)
}

func TestAJobHasALaneInTheQueueAndBeforeItIsDue(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	queue := inlet(t, conn, "queue", ofLanes())
	publishJob(t, queue, jobs.Spec{ID: "1"}, "bulk 1")
	publishJob(t, queue, jobs.Spec{ID: "2", Lane: "urgent"}, "bulk 2")
	publishJob(t, queue, jobs.Spec{Key: "3"}, "bulk 3")
	publishJob(t, queue, jobs.Spec{Lane: "normal"}, "4")
	publishJob(t, queue, jobs.Spec{ID: "5", In: time.Second, Lane: "urgent"}, "bulk 5")
	publishJob(t, queue, jobs.Spec{Key: "6", In: time.Second}, "bulk 6")
	publishJob(t, queue, jobs.Spec{In: time.Second}, "normal 7")
	require.NoError(t, queue.Publish(t.Context(), "", "urgent 8"))
	require.NoError(t, queue.Schedule(t.Context(), jobs.Schedule{Name: "tick", Every: 2 * time.Second}, "normal tick"))
	noJob(t, queue, jobs.Spec{ID: "2"}, "bulk 2")
	noJob(t, queue, jobs.Spec{Key: "3", Lane: "urgent"}, "3")
	noJob(t, queue, jobs.Spec{Key: "6", In: time.Hour, Lane: "urgent"}, "6")

	in := func(f jobs.Filter) (all []string) { return texts(list(t, queue, f)) }
	require.Equal(t, []string{`"bulk 2"`, `"urgent 8"`, `"bulk 5"`}, in(jobs.Filter{Lane: "urgent"}))
	require.Equal(t, []string{`"4"`, `"normal 7"`}, in(jobs.Filter{Lane: "normal"}))
	require.Equal(t, []string{`"bulk 1"`, `"bulk 3"`, `"bulk 6"`}, in(jobs.Filter{Lane: "bulk"}))
	require.Equal(t, []string{`"bulk 2"`}, in(jobs.Filter{ID: "2"}))
	require.Equal(t, []string{`"bulk 3"`}, in(jobs.Filter{Key: "3"}))
	require.Equal(t, []string{`"bulk 6"`}, in(jobs.Filter{Key: "6"}))
	require.Len(t, in(jobs.Filter{State: jobs.Pending}), 5)
	s := eventualStatus(t, queue, func(s nats.Status) bool { return s.Delayed == 3 })
	require.EqualValues(t, 5, s.Pending)

	// a process with no more than three places, which its stage holds
	o := ofLanes()
	o.MaxInFlight = 3
	h, work := record()
	release := make(chan struct{})
	hold := stage.Map("hold", func(ctx context.Context, cmd string) (string, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return cmd, ctx.Err()
	})
	again := inlet(t, conn, "queue", o)
	p, err := pipeline.New("test", pipeline.Feed("feed", hold, again.Feed), hold.To(work), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	lanes := func(f jobs.Filter) map[string]int {
		n := map[string]int{}
		for _, j := range list(t, queue, f) {
			n[j.Lane]++
		}
		return n
	}
	require.Eventually(t, func() bool { return len(lanes(jobs.Filter{State: jobs.InFlight})) == 3 }, time.Minute, 5*time.Millisecond,
		"each lane has one in flight")
	close(release)
	for _, cmd := range []string{"bulk 1", "bulk 2", "bulk 3", "4", "bulk 5", "bulk 6", "normal 7", "urgent 8", "normal tick"} {
		h.await(t, cmd)
	}
	require.Equal(t, jobs.Info{ID: "2"}, h.info("bulk 2"))
	require.Equal(t, "6", h.info("bulk 6").Key)
	require.Equal(t, "tick", h.info("normal tick").Schedule)
}

func TestALetterReturnsToItsLane(t *testing.T) {
	t.Parallel()
	o := ofLanes()
	o.Retry.Attempts = 1
	o.Logger = slog.New(slog.DiscardHandler)
	queue := inlet(t, embed(t, t.TempDir(), nats.Store{}), "queue", o)
	var mended atomic.Bool
	handled := make(chan string, 8)
	p, err := pipeline.New("test", pipeline.Feed("feed", stage.Sink("serve", func(_ context.Context, cmd string) error {
		if !mended.Load() {
			return errors.New("no")
		}
		handled <- cmd
		return nil
	}), queue.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	publishJob(t, queue, jobs.Spec{ID: "a", Lane: "urgent"}, "bulk a")
	eventualStatus(t, queue, func(s nats.Status) bool { return s.Buried == 1 && s.Pending == 0 })
	require.Len(t, list(t, queue, jobs.Filter{State: jobs.Dead, Lane: "urgent", ID: "a"}), 1)
	require.NoError(t, p.Stop(t.Context()))
	for l, err := range queue.Letters(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, queue.Retry(t.Context(), l))
	}
	require.Len(t, list(t, queue, jobs.Filter{State: jobs.Pending, Lane: "urgent"}), 1)
	mended.Store(true)
	newPipeline(t, stage.Sink("serve", func(_ context.Context, cmd string) error {
		handled <- cmd
		return nil
	}), queue.Feed)
	require.Equal(t, "bulk a", <-handled)
}

func TestWhatIsWrongWithLanesIsAnError(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	laned := inlet(t, conn, "laned", ofLanes())
	_ = inlet(t, conn, "plain", nats.Options[string]{})
	_ = inlet(t, conn, "shared", nats.Options[string]{Fair: func(string) (string, int) { return "", 1 }})
	with := func(change func(o *nats.Options[string])) nats.Options[string] {
		o := ofLanes()
		change(&o)
		return o
	}
	rows := []struct {
		name, inlet string
		o           nats.Options[string]
		want        string
	}{
		{"lanes without their function", "new", with(func(o *nats.Options[string]) { o.Lane = nil }), "Lanes and Lane need one another"},
		{"a function without lanes", "new", with(func(o *nats.Options[string]) { o.Lanes = nil }), "Lanes and Lane need one another"},
		{"a weight of nothing", "new", with(func(o *nats.Options[string]) { o.Lanes = map[string]int{"a": 0} }), `the weight of the lane "a" is 0`},
		{"a name with a dot", "new", with(func(o *nats.Options[string]) { o.Lanes = map[string]int{"a.b": 1} }), `the lane "a.b" must be of 1 to 64 letters`},
		{"lanes and keys", "new", with(func(o *nats.Options[string]) {
			o.Jobs, o.Fair = false, func(string) (string, int) { return "", 1 }
		}), "Lanes and Fair are set"},
		{"a number of partitions", "new", with(func(o *nats.Options[string]) { o.Partitions = 3 }), "Partitions is for the inlets of keyed stages"},
		{"a bound for no keys", "new", with(func(o *nats.Options[string]) { o.AtOnce = 3 }), "AtOnce is 3, and needs Fair"},
		{"other lanes", "laned", with(func(o *nats.Options[string]) { o.Lanes = map[string]int{"urgent": 2, "bulk": 1} }),
			`has "the messages of a Golda inlet in the lanes bulk, normal, urgent", and is to have "the messages of a Golda inlet in the lanes bulk, urgent": remove it when it is empty`},
		{"a plain inlet that is to have lanes", "plain", ofLanes(), `has "the messages of a Golda inlet", and is to have`},
		{"keys that are to have lanes", "shared", ofLanes(), `has "the messages of a Golda inlet in 64 shares", and is to have`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := nats.NewInlet(t.Context(), conn, r.inlet, r.o)
			require.ErrorContains(t, err, r.want)
		})
	}
	t.Run("other weights are fine", func(t *testing.T) {
		inlet(t, conn, "laned", with(func(o *nats.Options[string]) { o.Lanes = map[string]int{"urgent": 2, "normal": 1, "bulk": 1} }))
	})
	t.Run("a command or a job of no lane", func(t *testing.T) {
		require.EqualError(t, laned.Publish(t.Context(), "", "slow a"),
			`nats: inlet "laned": Options.Lane: the lane "slow" is none of bulk, normal, urgent`)
		_, err := laned.PublishJob(t.Context(), jobs.Spec{Lane: "slow"}, "bulk a")
		require.EqualError(t, err, `nats: inlet "laned": the lane "slow" is none of bulk, normal, urgent`)
		_, err = inlet(t, conn, "queue", ofJobs()).PublishJob(t.Context(), jobs.Spec{Lane: "slow"}, "a")
		require.EqualError(t, err, `nats: inlet "queue": it has no lanes: set Options.Lanes`)
	})
	t.Run("the lane of a command panics", func(t *testing.T) {
		o := with(func(o *nats.Options[string]) { o.Lane = func(string) string { panic("no lane") } })
		require.ErrorContains(t, inlet(t, conn, "laned", o).Publish(t.Context(), "", ""), "Options.Lane panicked: no lane")
	})
	t.Run("a process without the lanes", func(t *testing.T) {
		i := inlet(t, conn, "laned", ofJobs())
		require.ErrorContains(t, i.Publish(t.Context(), "", ""), "give NewInlet the same Options.Lanes")
		for _, err := range i.Jobs(t.Context(), jobs.Filter{}) {
			require.ErrorContains(t, err, "give NewInlet the same Options.Lanes")
		}
		p, err := pipeline.New("test", pipeline.Feed("feed", stage.Sink("serve", func(context.Context, string) error { return nil }), i.Feed), quiet)
		require.NoError(t, err)
		require.ErrorContains(t, p.Run(t.Context()), "give NewInlet the same Options.Lanes")
	})
	t.Run("a keyed stage of a carrier", func(t *testing.T) {
		keyed := stage.Keyed("enter", func(a string) string { return a }, func(string) behaviour.Behaviour[string] { return nil })
		_, err := pipeline.New("ledger", quiet, keyed, pipeline.Assign("back", "enter"),
			pipeline.RunsHere(nats.NewCarrier(conn, "ledger", nats.Options[any]{}, nats.Carry("enter", ofLanes())), "back"))
		require.ErrorContains(t, err, "is keyed, and its inlet cannot have Options.Lanes")
	})
}
