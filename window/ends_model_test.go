package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/window"
)

// witness is a broker and a sink that share a clock. It delivers each message until that is acknowledged, and then checks that the message,
// or in some forms a later one of its key, was handled since it was delivered.
type witness struct {
	mu        sync.Mutex // guards the rest
	waiting   []word
	out       int
	gone      int
	more      chan struct{}
	clock     int
	delivered map[string]int // message to time
	handled   map[string]int // message or key to time
	latest    bool           // a later message of the key will do
	last      bool           // the last pipeline runs: groups of one are complete
	faults    []string
	breaches  []string
}

func (m *witness) feed(ctx context.Context, submit func(word, func(error)) error) error {
	for ctx.Err() == nil {
		w, again, ok := m.deliver()
		if again {
			time.Sleep(20 * time.Millisecond) // time goes on, however often it is delivered
		}
		if !ok {
			select {
			case <-m.more:
			case <-ctx.Done():
			}
			continue
		}
		if err := submit(w, func(err error) { m.end(w, err) }); err != nil {
			m.end(w, err)
			return err
		}
	}
	return ctx.Err()
}

func (m *witness) deliver() (w word, again, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return w, false, false
	}
	w, m.waiting = m.waiting[0], m.waiting[1:]
	_, again = m.delivered[w.text]
	m.clock++
	m.out++
	m.delivered[w.text] = m.clock
	return w, again, true
}

func (m *witness) end(w word, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out--
	about := w.text
	if m.latest {
		about = w.key
	}
	switch {
	case err != nil:
		m.waiting = append(m.waiting, w)
	case m.handled[about] <= m.delivered[w.text]:
		m.breaches = append(m.breaches, fmt.Sprintf("%s is acknowledged and was not handled", w.text))
	default:
		m.gone++
	}
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// fault returns what goes wrong next.
func (m *witness) fault() (f string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) > 0 {
		f, m.faults = m.faults[0], m.faults[1:]
	}
	return f
}

// handle is the handler of the stage behind the windows.
func (m *witness) handle(ctx context.Context, all []word) error {
	switch m.fault() {
	case "error":
		return errDown
	case "panic":
		panic(errDown)
	case "goexit":
		runtime.Goexit()
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "slow":
		time.Sleep(300 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	for _, w := range all {
		m.handled[w.text] = m.clock
		m.handled[w.key] = m.clock
	}
	return nil
}

// modelForm makes the stages of one form: windows and what handles them.
type modelForm struct {
	latest bool
	parts  func(m *witness, of window.Bounds[word], opts []stage.Option) (entry *stage.Stage[word], parts []pipeline.Part)
}

func sinkOf[T any](m *witness, open func(T) []word) *stage.Flow[T, struct{}] {
	return stage.Sink("sink", func(ctx context.Context, v T) error { return m.handle(ctx, open(v)) },
		stage.Workers(1, 1), stage.Timeout(10*time.Second), stage.Overflow(overflow.DropOldest), stage.Capacity(2))
}

func formThat[T any](make func(window.Bounds[word], []stage.Option) *stage.Flow[word, T], open func(T) []word) modelForm {
	return modelForm{parts: func(m *witness, b window.Bounds[word], opts []stage.Option) (*stage.Stage[word], []pipeline.Part) {
		of := make(b, opts)
		return of.Stage, []pipeline.Part{of.To(sinkOf(m, open))}
	}}
}

func thatPassesOnTheLatest(make func(window.Bounds[word], []stage.Option) *stage.Flow[word, word]) modelForm {
	f := formThat(make, func(w word) []word { return []word{w} })
	f.latest = true
	return f
}

var modelForms = map[string]modelForm{
	"By": formThat(func(b window.Bounds[word], opts []stage.Option) *stage.Flow[word, group] { return by(b, opts...) },
		func(g group) []word { return g.Value }),
	"Aggregate": formThat(func(b window.Bounds[word], opts []stage.Option) *stage.Flow[word, group] {
		return window.Aggregate("sum", word.of, func(all []word, w word) []word { return append(all[:len(all):len(all)], w) }, b, opts...)
	}, func(g group) []word { return g.Value }),
	"Join": formThat(func(b window.Bounds[word], opts []stage.Option) *stage.Flow[word, group] {
		return window.Join("join", word.of, window.Parts[word]{Count: max(b.Count, 2), Limit: time.Second, Held: b.Held}, opts...)
	}, func(g group) []word { return g.Value }),
	"Join that fails": {parts: func(m *witness, b window.Bounds[word], opts []stage.Option) (*stage.Stage[word], []pipeline.Part) {
		whole := func(all []word) bool { return len(all) > 1 || m.last }
		of := window.Join("join", word.of, window.Parts[word]{Whole: whole, Limit: time.Second, Held: b.Held, Fail: true}, opts...)
		return of.Stage, []pipeline.Part{of.To(sinkOf(m, func(g group) []word { return g.Value }))}
	}},
	"Debounce": thatPassesOnTheLatest(func(_ window.Bounds[word], opts []stage.Option) *stage.Flow[word, word] {
		return window.Debounce("quiet", word.of, time.Second, 2*time.Second, opts...)
	}),
	"Throttle": thatPassesOnTheLatest(func(_ window.Bounds[word], opts []stage.Option) *stage.Flow[word, word] {
		return window.Throttle("seldom", word.of, time.Second, opts...)
	}),
	// Each message is two parts, which are summed up with those of others, and what came of them is joined.
	"JoinTicket behind windows": {parts: func(m *witness, b window.Bounds[word], opts []stage.Option) (*stage.Stage[word], []pipeline.Part) {
		split := stage.FlatMap("split", func(_ context.Context, w word, emit func(word) error) error {
			if err := emit(w); err != nil {
				return err
			}
			return emit(w)
		})
		pairs := by(b, opts...)
		join := window.JoinTicket("join", window.Parts[group]{Limit: time.Second})
		sink := sinkOf(m, func(w window.Window[struct{}, []group]) (all []word) {
			for _, g := range w.Value {
				all = append(all, g.Value...)
			}
			return all
		})
		return split.Stage, []pipeline.Part{split.To(pairs), pairs.To(join), join.To(sink)}
	}},
}

// The test runs pipelines of all forms, one after the other over the same broker, with errors,
// crashes, handlers that hang, a stage that drops what it has no place for, callers that leave, and hard stops, until all messages are gone.
func TestNoMessageIsAcknowledgedBeforeItWasHandled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		form := modelForms[rapid.SampledFrom(slices.Sorted(maps.Keys(modelForms))).Draw(rt, "form")]
		m := &witness{
			latest: form.latest, delivered: map[string]int{}, handled: map[string]int{},
			faults: rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "error", "panic", "goexit", "hang", "slow"}), 0, 12).Draw(rt, "faults"),
		}
		n := rapid.IntRange(1, 30).Draw(rt, "messages")
		for i := range n {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			m.waiting = append(m.waiting, word{key, fmt.Sprint(key, i)})
		}
		b := window.Bounds[word]{
			Count: rapid.IntRange(1, 8).Draw(rt, "count"), Time: time.Second, Held: rapid.SampledFrom([]int{0, 8}).Draw(rt, "held"),
		}
		var opts []stage.Option
		if rapid.Bool().Draw(rt, "limited") {
			opts = append(opts, stage.Timeout(700*time.Millisecond))
		}
		if rapid.Bool().Draw(rt, "retried") {
			opts = append(opts, stage.Defaults(stage.Retry(stage.RetryPolicy{Attempts: 2}))) // not of an Aggregate
		}
		stops := rapid.SliceOfN(rapid.IntRange(0, 2500), 1, 3).Draw(rt, "stops")
		synctest.Test(t, func(*testing.T) {
			m.more = make(chan struct{}, 1)
			for _, after := range stops {
				m.run(rt, form, b, opts, time.Duration(after)*time.Millisecond)
			}
			m.last = true
			m.run(rt, form, b, nil, 5*time.Minute)
		})
		require.Empty(rt, m.breaches)
		require.Zero(rt, m.out)
		require.Equal(rt, n, m.gone, "all messages are gone in the end")
	})
}

// run runs a pipeline for a time, and then stops it hard.
func (m *witness) run(t *rapid.T, form modelForm, b window.Bounds[word], opts []stage.Option, after time.Duration) {
	entry, stages := form.parts(m, b, opts)
	p, err := pipeline.New("test", append(stages,
		pipeline.Feed("messages", entry, source.Ends(m.feed)), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	time.Sleep(after)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Stop(ended)
	synctest.Wait()
	s := p.Snapshot()
	require.True(t, s.Balanced())
	require.Zero(t, s.InFlight)
}
