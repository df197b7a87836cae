package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// step is a command of one account.
type step struct {
	Account string
	N       int
}

// book notes the order in which steps were handled, by which process, and whether two of an account were handled at once.
type book struct {
	mu       sync.Mutex
	last     map[string]int
	distinct int
	by       map[string]int
	inside   map[string]bool
	faults   []string
}

func newBook() *book {
	return &book{last: map[string]int{}, by: map[string]int{}, inside: map[string]bool{}}
}

// enter notes the begin of a step. A step that was handled before may come again, as long as none after it was.
func (b *book) enter(process string, s step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside[s.Account] {
		b.faults = append(b.faults, fmt.Sprintf("two steps of %s at once", s.Account))
	}
	b.inside[s.Account] = true
	b.by[process]++
	switch last := b.last[s.Account]; s.N {
	case last + 1:
		b.last[s.Account]++
		b.distinct++
	case last: // again
	default:
		b.faults = append(b.faults, fmt.Sprintf("step %d of %s after %d", s.N, s.Account, last))
	}
}

func (b *book) leave(s step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside[s.Account] = false
}

func (b *book) handled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.distinct
}

func (b *book) of(process string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[process]
}

// ledger is a process of a pipeline with a keyed stage.
func ledger(t *testing.T, conn *nats.Conn, process, name string, b *book, fail func(step) error) (*pipeline.Pipeline, *stage.Flow[step, step]) {
	t.Helper()
	route := stage.Map("route", func(_ context.Context, s step) (step, error) { return s, nil }, stage.Workers(1, 1))
	enter := stage.Keyed("enter", func(s step) string { return s.Account }, func(string) behaviour.Behaviour[step] {
		return behaviour.Func[step](func(_ context.Context, s step) behaviour.Outcome {
			b.enter(name, s)
			defer b.leave(s)
			if err := fail(s); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(nil)
		})
	})
	carrier := nats.NewCarrier(conn, "ledger", nats.Options[any]{
		Retry: stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond}, Partitions: 8,
	})
	p, err := pipeline.New("ledger", quiet, route.To(enter), pipeline.Assign("front", "route"), pipeline.Assign("back", "enter"),
		pipeline.RunsHere(carrier, process))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	return p, route
}

func TestTheCommandsOfAKeyAreHandledInOrderWhileProcessesComeAndGo(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	b := newBook()
	well := func(s step) error {
		if s.N%50 == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	_, route := ledger(t, conn, "front", "front", b, well)
	first, _ := ledger(t, conn, "back", "first", b, well)
	const accounts, each = 20, 120
	total := accounts * each
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := range each {
			for a := range accounts {
				assert.NoError(t, route.Submit(t.Context(), step{fmt.Sprint("account ", a), n + 1}))
			}
		}
	}()
	reach := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return b.handled() >= n }, 2*time.Minute, time.Millisecond)
	}
	reach(total / 10)
	ledger(t, conn, "back", "second", b, well)
	reach(total / 3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = first.Stop(ended) // hard
	ledger(t, conn, "back", "third", b, well)
	<-sent
	reach(total)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.faults)
	assert.Len(t, b.last, accounts)
}

func TestProcessesThatComeGetPartitionsOfAKeyedStage(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	b := newBook()
	well := func(step) error { return nil }
	_, route := ledger(t, conn, "front", "front", b, well)
	ledger(t, conn, "back", "first", b, well)
	ledger(t, conn, "back", "second", b, well)
	for n := 1; b.of("first") == 0 || b.of("second") == 0; n++ {
		for a := range 16 {
			require.NoError(t, route.Submit(t.Context(), step{strconv.Itoa(a), n}))
		}
		time.Sleep(time.Millisecond)
		require.Less(t, n, 60_000)
	}
}

func TestAStepThatFailsHoldsUpThoseOfItsKeyUntilItIsADeadLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	b := newBook()
	_, route := ledger(t, conn, "front", "front", b, func(step) error { return nil })
	var mu sync.Mutex
	mended := false
	ledger(t, conn, "back", "back", b, func(s step) error {
		mu.Lock()
		defer mu.Unlock()
		if s.N == 2 && !mended {
			return errors.New("a bad step")
		}
		return nil
	})
	for n := 1; n <= 4; n++ {
		require.NoError(t, route.Submit(t.Context(), step{"account", n}))
	}
	require.Eventually(t, func() bool { return b.handled() == 4 }, time.Minute, time.Millisecond)
	assert.Empty(t, b.faults)
	require.Equal(t, 6, b.of("back"), "three tries of the second step")

	// The inlet as it is opened by its name only: for letters and for the status.
	i := inlet(t, conn, "ledger_enter", nats.Options[step]{})
	s := eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 })
	assert.Equal(t, nats.Status{Published: 4, Buried: 1, DeadLettered: 1}, s)
	require.ErrorContains(t, i.Publish(t.Context(), "", step{}), "keyed stage")
	for l, err := range i.Letters(t.Context()) {
		require.NoError(t, err)
		mu.Lock()
		mended = true
		mu.Unlock()
		b.mu.Lock()
		b.last["account"] = 1 // it comes after the others now
		b.mu.Unlock()
		require.NoError(t, i.Retry(t.Context(), l))
	}
	require.Eventually(t, func() bool { return b.of("back") == 7 }, time.Minute, time.Millisecond)
	assert.Equal(t, nats.Status{Published: 5, Buried: 1}, eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 }))
}

func TestAnInletKeepsItsPartitions(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	ledger(t, conn, "back", "back", newBook(), func(step) error { return nil })
	plain := stage.Sink("enter", func(context.Context, step) error { return nil })
	keyed := stage.Keyed("enter", func(s step) string { return s.Account }, func(string) behaviour.Behaviour[step] { return nil })
	rows := []struct {
		name  string
		stage pipeline.Part
		want  string
	}{
		{"of another number", keyed, "has 8 partitions, and is to have 32"},
		{"of none", plain, "has 8 partitions"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, err := pipeline.New("ledger", quiet, r.stage, pipeline.Assign("back", "enter"),
				pipeline.RunsHere(nats.NewCarrier(conn, "ledger", nats.Options[any]{}), "back"))
			require.NoError(t, err)
			require.ErrorContains(t, p.Start(t.Context()), r.want)
		})
	}
	_, err := nats.NewInlet(t.Context(), conn, "plain", nats.Options[step]{Partitions: 4})
	require.ErrorContains(t, err, "Partitions is for the inlets of keyed stages")
}
