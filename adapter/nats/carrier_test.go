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
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/stage"
)

// scan is a picture, and page its text.
type (
	scan struct {
		ID    int
		Lines []string
	}
	page struct {
		ID   int
		Text string
	}
)

// pages counts what was indexed.
type pages struct {
	mu sync.Mutex
	of map[int]int
}

func (s *pages) put(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[int]int{}
	}
	s.of[id]++
}

// full reports whether the index has n pages, each so many times at least.
func (s *pages) full(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of) == n
}

// archive is one process of a pipeline that reads scans.
type archive struct {
	*pipeline.Pipeline
	load *stage.Flow[scan, scan]
	ocr  *stage.Flow[scan, page]
}

// newArchive makes the pipeline as a process has it.
func newArchive(t *testing.T, carrier remote.Carrier, process string, read func(scan) (page, error), done *pages) *archive {
	t.Helper()
	a := &archive{}
	a.load = stage.Map("load", func(_ context.Context, s scan) (scan, error) { return s, nil }, stage.Capacity(16))
	a.ocr = stage.Map("ocr", func(_ context.Context, s scan) (page, error) { return read(s) }, stage.Capacity(16))
	index := stage.Sink("index it", func(_ context.Context, p page) error {
		done.put(p.ID)
		return nil
	})
	p, err := pipeline.New("archive", quiet, a.load.To(a.ocr), a.ocr.To(index),
		pipeline.Assign("front", "load"), pipeline.Assign("ocr", "ocr"), pipeline.Assign("back", "index it"), pipeline.RunsHere(carrier, process))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	a.Pipeline = p
	return a
}

func read(s scan) (page, error) { return page{s.ID, fmt.Sprint(s.Lines)}, nil }

func TestACarrierTakesCommandsThroughThreeProcesses(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	carrier := nats.NewCarrier(conn, "archive", nats.Options[any]{}, nats.Carry("index it", nats.Options[page]{MaxInFlight: 8}))
	done := &pages{}
	front := newArchive(t, carrier, "front", read, done)
	ocr := newArchive(t, carrier, "ocr", read, done)
	back := newArchive(t, nats.NewCarrier(conn, "archive", nats.Options[any]{}, nats.Carry("index it", nats.Options[page]{MaxInFlight: 8})),
		"back", read, done)
	const n = 1000
	for i := range n {
		require.NoError(t, front.load.Submit(t.Context(), scan{ID: i, Lines: []string{"a", "b"}}))
	}
	require.Eventually(t, func() bool { return done.full(n) }, time.Minute, time.Millisecond)
	for _, p := range []*archive{front, ocr, back} {
		require.NoError(t, p.Stop(context.Background()))
	}
	for id, times := range done.of {
		assert.Equal(t, 1, times, id)
	}
	s := eventualStatus(t, inlet(t, conn, "archive_ocr", nats.Options[scan]{}), func(s nats.Status) bool { return s.Pending == 0 })
	assert.EqualValues(t, n, s.Published)
	assert.Zero(t, s.DeadLettered)
}

// eventualStatus waits until the server has acknowledged what is on its way.
func eventualStatus[C any](t *testing.T, i *nats.Inlet[C], is func(nats.Status) bool) (s nats.Status) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		s, err = i.Status(t.Context())
		require.NoError(t, err)
		return is(s)
	}, time.Minute, 10*time.Millisecond)
	return s
}

func TestAFullStreamHoldsUpTheSender(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	o := nats.Options[any]{MaxMessages: 10}
	done := &pages{}
	front := newArchive(t, nats.NewCarrier(conn, "archive", o), "front", read, done)
	const n = 500 // more than the queues hold
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range n {
			assert.NoError(t, front.load.Submit(t.Context(), scan{ID: i}))
		}
	}()
	select {
	case <-sent:
		t.Fatal("nothing holds the sender up")
	case <-time.After(200 * time.Millisecond):
	}
	newArchive(t, nats.NewCarrier(conn, "archive", o), "ocr", read, done)
	newArchive(t, nats.NewCarrier(conn, "archive", o), "back", read, done)
	<-sent
	require.Eventually(t, func() bool { return done.full(n) }, time.Minute, time.Millisecond)
}

func TestACommandThatCannotBeEncodedFailsAndTheOthersAreSent(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	type number struct{ F any }
	near := stage.Map("near", func(_ context.Context, f any) (number, error) { return number{f}, nil })
	far := stage.Sink("far", func(context.Context, number) error { return nil })
	p, err := pipeline.New("test", quiet, near.To(far), pipeline.Feed("feed", near, func(_ context.Context, submit func(any) error) error {
		for _, f := range []any{1, make(chan int), 2, string(make([]byte, 2<<20)), 3} {
			if err := submit(f); err != nil {
				return err
			}
		}
		return nil
	}), pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(nats.NewCarrier(conn, "test", nats.Options[any]{},
		nats.Carry("far", nats.Options[number]{Codec: nats.JSON[number]{}})), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	s := p.Snapshot()
	assert.EqualValues(t, 3, s.Replied)
	assert.EqualValues(t, 2, s.Failed)
	assert.True(t, s.Balanced(), s.Law())
	assert.Equal(t, 2, p.Failures().Len())
}

func TestNewReportsWhatIsWrongWithACarrier(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	plain := stage.Func("plain", func(context.Context, scan) behaviour.Outcome { return behaviour.OK(nil) })
	iface := stage.Func("interface", func(context.Context, fmt.Stringer) behaviour.Outcome { return behaviour.OK(nil) })
	rows := []struct {
		name    string
		carrier *nats.Carrier
		want    string
	}{
		{"no name", nats.NewCarrier(conn, "", nats.Options[any]{}), "the pipeline has no name"},
		{"another pipeline", nats.NewCarrier(conn, "tests", nats.Options[any]{}), `NewCarrier("tests") is for another pipeline than "test"`},
		{"an option out of range", nats.NewCarrier(conn, "test", nats.Options[any]{Replicas: 9}), "Replicas is 9"},
		{
			"a stage's option out of range",
			nats.NewCarrier(conn, "test", nats.Options[any]{}, nats.Carry("plain", nats.Options[scan]{Replicas: 9})), "Replicas is 9",
		},
		{
			"another type", nats.NewCarrier(conn, "test", nats.Options[any]{}, nats.Carry("plain", nats.Options[page]{})),
			`Carry("plain") is for nats_test.page, and the stage takes nats_test.scan`,
		},
		{
			"twice", nats.NewCarrier(conn, "test", nats.Options[any]{}, nats.Carry("plain", nats.Options[scan]{}),
				nats.Carry("plain", nats.Options[scan]{})), `Carry("plain") is given twice`,
		},
		{
			"a codec of any", nats.NewCarrier(conn, "test", nats.Options[any]{Codec: nats.JSON[any]{}}),
			"the codec JSON[any] does not give back a nats_test.scan",
		},
		{"an interface", nats.NewCarrier(conn, "test", nats.Options[any]{}), "JSON cannot carry fmt.Stringer"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := pipeline.New("test", plain, iface, pipeline.Assign("a", "plain", "interface"), pipeline.RunsHere(r.carrier, "a"))
			assert.ErrorContains(t, err, r.want)
		})
	}
	assert.Panics(t, func() { nats.NewCarrier(nil, "test", nats.Options[any]{}) })
}

func TestAStartFailsIfAStageOfCarryHasNoInlet(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	near := stage.Map("near", func(_ context.Context, s scan) (scan, error) { return s, nil })
	far := stage.Sink("far", func(context.Context, scan) error { return nil })
	carrier := nats.NewCarrier(conn, "test", nats.Options[any]{}, nats.Carry("far", nats.Options[scan]{}), nats.Carry("farr", nats.Options[scan]{}))
	p, err := pipeline.New("test", quiet, near.To(far), pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(carrier, "a"))
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), `Carry is given for ["farr"]`)
	<-p.Done()
}

// confused is a codec that reads something else than it has written.
type confused struct{ nats.JSON[any] }

func TestACommandOfAWrongTypeIsADeadLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	done := &pages{}
	wrong := nats.NewCarrier(conn, "archive", nats.Options[any]{Codec: confused{}})
	front, ocr := newArchive(t, wrong, "front", read, done), newArchive(t, wrong, "ocr", read, done)
	require.NoError(t, front.load.Submit(t.Context(), scan{ID: 1}))
	i := inlet(t, conn, "archive_ocr", nats.Options[scan]{})
	eventualStatus(t, i, func(s nats.Status) bool { return s.DeadLettered == 1 && s.Pending == 0 })
	assert.True(t, ocr.Snapshot().Balanced())
	select {
	case <-ocr.Done():
		t.Fatal("the process has ended")
	default:
	}
}
