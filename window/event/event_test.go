package event_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hit is a command: a number of bytes of a host at a second.
type hit struct {
	At    int
	Host  string
	Bytes int
}

func (h hit) time() time.Time { return time.Unix(int64(h.At), 0) }

func (h hit) host() string { return h.Host }

func plus(sum int, h hit) int { return sum + h.Bytes }

func added(a, b int) int { return a + b }

func bytesOf() event.Fold[string, hit, int] { return event.Sum(hit.time, hit.host, plus) }

const s = time.Second

type result = event.Window[string, int]

// text returns a result such as "a[0,60) 7/2": of a key, the start and the end, the value and the count.
func text(w result) string {
	t := fmt.Sprintf("%s[%d,%d) %d/%d", w.Key, w.Start.Unix(), w.End.Unix(), w.Value, w.Count)
	if w.Pane > 0 {
		t += fmt.Sprintf(" pane %d", w.Pane)
	}
	if w.Early {
		t += " early"
	}
	return t
}

// report records results.
type report struct {
	mu  sync.Mutex
	all []result
}

func (r *report) add(_ context.Context, w result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, w)
	return nil
}

// take returns the results since the last call.
func (r *report) take() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		all = append(all, text(w))
	}
	r.all = nil
	return all
}

// run starts a pipeline of the flow.
func run(t *testing.T, of *stage.Flow[hit, result], r *report, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, of.To(stage.Sink("report", r.add, stage.Workers(1, 1))), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p
}

func submit(t *testing.T, of *stage.Flow[hit, result], hits ...hit) {
	t.Helper()
	for _, h := range hits {
		require.NoError(t, of.Submit(t.Context(), h))
	}
}

// step is what is submitted, and the results that leave then.
type step struct {
	hits []hit
	want []string
}

func at(second int) step { return step{hits: []hit{{second, "a", 1}}} }

func (s step) of(key string) step {
	s.hits[0].Host = key
	return s
}

func (s step) passes(want ...string) step {
	s.want = want
	return s
}

func TestAWindowIsPassedOnWhenTheWatermarkReachesItsEnd(t *testing.T) {
	bySource := func(h hit) string { return h.Host[1:] }
	for name, c := range map[string]struct {
		flow  func(m event.Watermark[hit]) *stage.Flow[hit, result]
		mark  event.Watermark[hit]
		steps []step
		end   []string
	}{
		"tumbling": {
			flow: tumbling, mark: event.Watermark[hit]{Disorder: 10 * s},
			steps: []step{at(0), at(59), at(69), at(55), at(70).passes("a[0,60) 3/3"), at(61)},
			end:   []string{"a[60,120) 3/3 early"},
		},
		"times before 1970": {
			flow: tumbling, steps: []step{at(-61), at(-60).passes("a[-120,-60) 1/1"), at(0).passes("a[-60,0) 1/1")},
			end: []string{"a[0,60) 1/1 early"},
		},
		"windows of several keys, the first end first": {
			flow: tumbling, mark: event.Watermark[hit]{Disorder: 60 * s},
			steps: []step{at(60).of("b"), at(0).of("c"), at(1).of("a"), at(200).passes("c[0,60) 1/1", "a[0,60) 1/1", "b[60,120) 1/1")},
			end:   []string{"a[180,240) 1/1 early"},
		},
		"sliding": {
			flow: sliding, mark: event.Watermark[hit]{Disorder: 5 * s},
			steps: []step{at(70), at(66), at(85).passes("a[20,80) 2/2")},
			end:   []string{"a[40,100) 3/3 early", "a[60,120) 3/3 early", "a[80,140) 1/1 early"},
		},
		"a session that grows and joins another": {
			flow: session, mark: event.Watermark[hit]{Disorder: 100 * s},
			steps: []step{at(0), at(29), at(70), at(45), at(300).passes("a[0,100) 4/4")},
			end:   []string{"a[300,330) 1/1 early"},
		},
		"a session that a pause of the gap ends": {
			flow:  session,
			steps: []step{at(0), at(29), at(59).passes("a[0,59) 2/2"), at(88)},
			end:   []string{"a[59,118) 2/2 early"},
		},
		"the slowest source": {
			flow: tumbling, mark: event.Watermark[hit]{Source: bySource},
			steps: []step{at(0).of("a1"), at(1).of("a2"), at(100).of("a1"), at(59).of("a2"), at(60).of("a2").passes("a1[0,60) 1/1", "a2[0,60) 2/2")},
			end:   []string{"a1[60,120) 1/1 early", "a2[60,120) 1/1 early"},
		},
		"by key": {
			flow: tumbling, mark: event.Watermark[hit]{ByKey: true},
			steps: []step{at(0), at(1000).of("b"), at(1), at(60).passes("a[0,60) 2/2")},
			end:   []string{"a[60,120) 1/1 early", "b[960,1020) 1/1 early"},
		},
		"passed on again": {
			flow: tumbling, mark: event.Watermark[hit]{Lateness: 60 * s, Dropped: new(atomic.Int64)},
			steps: []step{
				at(0), at(60).passes("a[0,60) 1/1"), at(1).passes("a[0,60) 2/2 pane 1"), at(119), at(3).passes("a[0,60) 3/3 pane 2"),
				at(5).of("b").passes("b[0,60) 1/1"), at(120).passes("a[60,120) 2/2"), at(4),
			},
			end: []string{"a[120,180) 1/1 early"},
		},
		"passed on again by key": {
			flow: tumbling, mark: event.Watermark[hit]{Lateness: 60 * s, Dropped: new(atomic.Int64), ByKey: true},
			steps: []step{
				at(0), at(60).passes("a[0,60) 1/1"), at(1).passes("a[0,60) 2/2 pane 1"), at(119), at(3).passes("a[0,60) 3/3 pane 2"),
				at(5).of("b"), at(120).passes("a[60,120) 2/2"), at(4),
			},
			end: []string{"b[0,60) 1/1 early", "a[120,180) 1/1 early"},
		},
		"passed on again, without what was passed on": {
			flow: tumbling, mark: event.Watermark[hit]{Lateness: 60 * s, Discard: true},
			steps: []step{at(0), at(60).passes("a[0,60) 1/1"), at(1).passes("a[0,60) 1/1 pane 1"), at(2).passes("a[0,60) 1/1 pane 2")},
			end:   []string{"a[60,120) 1/1 early"},
		},
		"a session that was passed on grows": {
			flow: session, mark: event.Watermark[hit]{Lateness: 60 * s},
			steps: []step{at(0), at(30).passes("a[0,30) 1/1"), at(20), at(60).of("b").passes("a[0,60) 3/3 pane 1")},
			end:   []string{"b[60,90) 1/1 early"},
		},
		"the oldest at the bound": {
			flow: tumbling, mark: event.Watermark[hit]{Disorder: time.Hour, Held: 2},
			steps: []step{at(60), at(120), at(0).passes("a[0,60) 1/1 early"), at(180).passes("a[60,120) 1/1 early")},
			end:   []string{"a[120,180) 1/1 early", "a[180,240) 1/1 early"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r report
				of := c.flow(c.mark)
				p := run(t, of, &r)
				for i, one := range c.steps {
					submit(t, of, one.hits...)
					synctest.Wait()
					require.Equal(t, one.want, r.take(), "step %d", i)
				}
				require.NoError(t, p.Stop(t.Context()))
				require.Equal(t, c.end, r.take())
			})
		})
	}
}

func tumbling(m event.Watermark[hit]) *stage.Flow[hit, result] {
	return event.Tumbling("bytes", 60*s, bytesOf(), m)
}

func sliding(m event.Watermark[hit]) *stage.Flow[hit, result] {
	return event.Sliding("bytes", 60*s, 20*s, bytesOf(), m)
}

func session(m event.Watermark[hit]) *stage.Flow[hit, result] {
	return event.Session("bytes", 30*s, bytesOf(), added, m)
}
