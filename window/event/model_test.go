package event_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// loop is what a loop makes of commands, in any order: the model.
func loop(form string, hits []hit) (all []result) {
	type place struct {
		key   string
		start int
	}
	sums := map[place]*result{}
	add := func(h hit, start, length int) {
		w := sums[place{h.Host, start}]
		if w == nil {
			w = &result{Key: h.Host, Start: time.Unix(int64(start), 0).UTC(), End: time.Unix(int64(start+length), 0).UTC()}
			sums[place{h.Host, start}] = w
		}
		w.Value += h.Bytes
		w.Count++
	}
	switch form {
	case "tumbling":
		for _, h := range hits {
			add(h, h.At/60*60, 60)
		}
	case "sliding":
		for _, h := range hits {
			for start := h.At / 20 * 20; start > h.At-60; start -= 20 {
				add(h, start, 60)
			}
		}
	case "session":
		last := map[string]*result{}
		for _, h := range slices.SortedStableFunc(slices.Values(hits), func(a, b hit) int { return cmp.Compare(a.At, b.At) }) {
			if w := last[h.Host]; w == nil || int64(h.At) >= w.End.Unix() {
				last[h.Host] = nil
				add(h, h.At, 30)
				last[h.Host] = sums[place{h.Host, h.At}]
			} else {
				add(h, int(w.Start.Unix()), 0)
				w.End = time.Unix(int64(h.At+30), 0).UTC()
			}
		}
	}
	for _, w := range sums {
		all = append(all, *w)
	}
	slices.SortFunc(all, byPlace)
	return all
}

func byPlace(a, b result) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), a.Start.Compare(b.Start), cmp.Compare(a.Pane, b.Pane))
}

var forms = map[string]func(event.Watermark[hit]) *stage.Flow[hit, result]{"tumbling": tumbling, "sliding": sliding, "session": session}

// drawHits draws commands and an order of arrival in which no command comes after one that is later by more than a bound.
func drawHits(t *rapid.T) (form string, hits []hit, disorder int) {
	form = rapid.SampledFrom([]string{"tumbling", "sliding", "session"}).Draw(t, "form")
	disorder = rapid.IntRange(0, 100).Draw(t, "disorder")
	hits = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hit {
		return hit{rapid.IntRange(1000, 2000).Draw(t, "at"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "host"), rapid.IntRange(0, 9).Draw(t, "bytes")}
	}), 0, 100).Draw(t, "hits")
	delay := rapid.SliceOfN(rapid.IntRange(0, disorder), len(hits), len(hits)).Draw(t, "delays")
	order := make([]int, len(hits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(hits[i].At+delay[i], hits[j].At+delay[j]) })
	ordered := make([]hit, len(hits))
	for i, j := range order {
		ordered[i] = hits[j]
	}
	return form, ordered, disorder
}

func TestResultsAreThoseOfALoopForAnyOrderWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form, hits, disorder := drawHits(t)
		mark := event.Watermark[hit]{Disorder: time.Duration(disorder) * s, ByKey: rapid.Bool().Draw(t, "by key")}
		if !mark.ByKey && rapid.Bool().Draw(t, "sources") {
			mark.Source = hit.host
		}
		var r report
		of := forms[form](mark)
		p, err := pipeline.New("test", of.To(stage.Sink("report", r.add, stage.Workers(1, 1))), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Feed("hits", of.Stage, source.Slice(hits)))
		require.NoError(t, err)
		require.NoError(t, p.Run(context.Background()))
		slices.SortFunc(r.all, byPlace)
		for i := range r.all {
			r.all[i].Early = false
		}
		require.Equal(t, loop(form, hits), r.all)
		require.Zero(t, p.Snapshot().Stages[0].Counts.Errors)
	})
}

// Late commands are counted, all others are in exactly the windows of a loop: of commands in any order.
func TestCommandsAreInTheirWindowsOrCountedAsLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hits := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hit {
			return hit{rapid.IntRange(1000, 2000).Draw(t, "at"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host"), rapid.IntRange(0, 9).Draw(t, "bytes")}
		}), 0, 100).Draw(t, "hits")
		var dropped atomic.Int64
		mark := event.Watermark[hit]{Dropped: &dropped, Lateness: time.Duration(rapid.IntRange(0, 300).Draw(t, "lateness")) * s, Discard: rapid.Bool().Draw(t, "discard")}
		var r report
		of := tumbling(mark)
		p, err := pipeline.New("test", of.To(stage.Sink("report", r.add, stage.Workers(1, 1))), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Feed("hits", of.Stage, source.Slice(hits)))
		require.NoError(t, err)
		require.NoError(t, p.Run(context.Background()))
		latest, late := 0, int64(0)
		var kept []hit
		for _, h := range hits {
			if latest > 0 && h.At/60*60+60+int(mark.Lateness/s) <= latest {
				late++
			} else {
				kept = append(kept, h)
			}
			latest = max(latest, h.At)
		}
		require.Equal(t, late, dropped.Load())
		last := map[string]result{}
		for _, w := range r.all {
			key := w.Key + w.Start.String()
			if mark.Discard {
				w.Value, w.Count = w.Value+last[key].Value, w.Count+last[key].Count
			}
			w.Pane, w.Early = 0, false
			last[key] = w
		}
		var all []result
		for _, w := range last {
			all = append(all, w)
		}
		slices.SortFunc(all, byPlace)
		require.Equal(t, loop("tumbling", kept), all)
	})
}

var errBoom = errors.New("boom")

// ends is a source whose commands are heard of.
type ends struct {
	feed  chan hit
	ended chan string
}

func newEnds() *ends { return &ends{make(chan hit), make(chan string, 1000)} }

func (e *ends) source() source.Source[hit] {
	return source.Ends(func(ctx context.Context, submit func(hit, func(error)) error) error {
		for {
			select {
			case h, ok := <-e.feed:
				if !ok {
					return nil
				}
				if err := submit(h, func(err error) {
					text := "ok"
					if err != nil {
						text = strings.TrimPrefix(err.Error(), `stage "end": `)
					}
					e.ended <- fmt.Sprintf("%s%d: %s", h.Host, h.At, text)
				}); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (e *ends) take() (all []string) {
	synctest.Wait()
	for len(e.ended) > 0 {
		all = append(all, <-e.ended)
	}
	slices.Sort(all)
	return all
}

func TestACommandEndsWithTheResultsOfItsWindows(t *testing.T) {
	for form, c := range map[string]struct {
		hits []hit
		next []hit // each lets one result leave
		want [][]string
	}{
		"tumbling": {
			[]hit{{0, "a", 1}, {1, "a", 1}, {2, "b", 1}}, []hit{{60, "c", 1}, {120, "d", 1}},
			[][]string{{"a0: ok", "a1: ok", "b2: boom"}, {"c60: ok"}},
		},
		"sliding": {
			[]hit{{0, "a", 1}, {25, "a", 1}}, []hit{{60, "c", 1}, {80, "d", 1}, {100, "e", 1}},
			[][]string{{"a0: ok"}, {"a25: ok"}, nil},
		},
		"session": {
			[]hit{{0, "a", 1}, {20, "a", 1}, {20, "b", 1}}, []hit{{50, "c", 1}, {100, "d", 1}},
			[][]string{{"a0: ok", "a20: ok", "b20: boom"}, {"c50: ok"}},
		},
	} {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, of := newEnds(), forms[form](event.Watermark[hit]{})
				end := stage.Sink("end", func(_ context.Context, w result) error {
					if w.Key == "b" {
						return errBoom
					}
					return nil
				})
				p, err := pipeline.New("test", of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.Feed("hits", of.Stage, e.source()))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				for _, h := range c.hits {
					e.feed <- h
				}
				require.Empty(t, e.take(), "all are in open windows")
				for i, h := range c.next {
					e.feed <- h
					require.Equal(t, c.want[i], e.take(), "step %d", i)
				}
				require.NoError(t, p.Stop(t.Context()))
				e.take()
			})
		})
	}
}

// Sessions that become one end together, whichever came first.
func TestCommandsOfJoinedSessionsEndWithTheOneResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, of := newEnds(), session(event.Watermark[hit]{Disorder: 100 * s})
		fails := true
		end := stage.Sink("end", func(context.Context, result) error {
			if fails {
				return errBoom
			}
			return nil
		})
		p, err := pipeline.New("test", of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.Feed("hits", of.Stage, e.source()))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for _, at := range []int{40, 41, 0, 1, 20} {
			e.feed <- hit{at, "a", 1}
		}
		require.Empty(t, e.take())
		require.Equal(t, 1, p.Snapshot().Stages[1].Queue.Suspended)
		e.feed <- hit{1000, "b", 1}
		require.Equal(t, []string{"a0: boom", "a1: boom", "a20: boom", "a40: boom", "a41: boom"}, e.take())
		fails = false
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []string{"b1000: ok"}, e.take())
	})
}

func TestAWindowOutlivesTheCallerWhoseCommandOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		of := tumbling(event.Watermark[hit]{})
		p := run(t, of, &r)
		ctx, cancel := context.WithCancel(t.Context())
		first, err := of.Ask(ctx, hit{0, "a", 1})
		require.NoError(t, err)
		due, undo := stage.WithDeadline(t.Context(), time.Now().Add(time.Second))
		defer undo()
		require.NoError(t, of.Submit(due, hit{0, "b", 1}))
		synctest.Wait()
		cancel()
		time.Sleep(time.Hour)
		_, err = first.Wait(ctx)
		require.ErrorIs(t, err, context.Canceled)
		submit(t, of, hit{1, "a", 1}, hit{1, "b", 1}, hit{60, "c", 1})
		synctest.Wait()
		require.Equal(t, []string{"a[0,60) 2/2", "b[0,60) 2/2"}, r.take())
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAHardStopPassesWindowsOnOrLeavesLettersOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, of := newEnds(), tumbling(event.Watermark[hit]{})
		var done []string
		never := stage.Sink("end", func(_ context.Context, w result) error {
			done = append(done, text(w))
			return nil
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", of.To(never), pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.Feed("hits", of.Stage, e.source()))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		e.feed <- hit{0, "a", 1}
		e.feed <- hit{1, "a", 2}
		submit(t, of, hit{2, "b", 3}, hit{3, "b", 4})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Stop(ctx))
		<-p.Done()
		all := e.take()
		require.Len(t, all, 2)
		for _, l := range p.DeadLetters().List(letters.Filter{}) {
			w := l.Command.(result)
			done = append(done, text(w))
			if w.Key == "a" {
				require.Contains(t, all[0], "a0: stopped")
				require.Contains(t, all[1], "a1: stopped")
			}
		}
		require.ElementsMatch(t, []string{"a[0,60) 3/2 early", "b[0,60) 7/2 early"}, done)
	})
}

func TestLateCommandsGoWhereTheyAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan int, 10)
		side := stage.Sink("late", func(_ context.Context, h hit) error {
			late <- h.At
			return nil
		})
		var r report
		of := tumbling(event.Watermark[hit]{Late: side})
		p := run(t, of, &r, side)
		submit(t, of, hit{100, "a", 1}, hit{59, "a", 1}, hit{60, "a", 1})
		synctest.Wait()
		require.Len(t, late, 1)
		require.Equal(t, 59, <-late)
		require.NoError(t, p.Stop(t.Context()))

		of = tumbling(event.Watermark[hit]{})
		p = run(t, of, &r)
		submit(t, of, hit{100, "a", 1}, hit{59, "a", 1})
		synctest.Wait()
		require.Len(t, p.Failures().List(letters.Filter{}), 1)
		require.ErrorIs(t, p.Failures().List(letters.Filter{})[0].Err, event.ErrLate)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAnIdleSourceDoesNotHoldTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		of := tumbling(event.Watermark[hit]{Source: hit.host, Idle: 10 * s})
		p := run(t, of, &r)
		submit(t, of, hit{0, "a", 1}, hit{100, "b", 1})
		for range 3 { // b goes on
			time.Sleep(7 * s)
			submit(t, of, hit{110, "b", 1})
		}
		synctest.Wait()
		require.Equal(t, []string{"a[0,60) 1/1"}, r.take())
		submit(t, of, hit{119, "a", 1}, hit{200, "b", 1}) // a is back, and holds
		synctest.Wait()
		require.Empty(t, r.take())
		time.Sleep(30 * s) // all are idle
		synctest.Wait()
		require.Equal(t, []string{"b[60,120) 4/4 early", "a[60,120) 1/1 early", "b[180,240) 1/1 early"}, r.take())
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAnIdleKeyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		of := tumbling(event.Watermark[hit]{ByKey: true, Idle: 10 * s})
		p := run(t, of, &r)
		submit(t, of, hit{0, "a", 1}, hit{0, "b", 1})
		for range 3 {
			time.Sleep(7 * s)
			submit(t, of, hit{1, "b", 1})
		}
		synctest.Wait()
		require.Equal(t, []string{"a[0,60) 1/1 early"}, r.take())
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []string{"b[0,60) 4/4 early"}, r.take())
	})
}

func TestAQuietSourcePassesItsWindowsOnIfItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		of := tumbling(event.Watermark[hit]{Idle: 10 * s})
		p := run(t, of, &r)
		submit(t, of, hit{0, "a", 1})
		time.Sleep(20 * s)
		synctest.Wait()
		require.Equal(t, []string{"a[0,60) 1/1 early"}, r.take())
		require.NoError(t, p.Stop(t.Context()))
	})
}

// A source with a bound, all of whose commands are in windows, gets on.
func TestASourceThatWaitsForItsWindowsGetsThemPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := int64(0)
		numbers := func(_ context.Context, submit func(hit) error) error {
			for range 40_000 {
				if err := submit(hit{0, "a", 1}); err != nil {
					return err
				}
			}
			return nil
		}
		sum := 0
		of := tumbling(event.Watermark[hit]{Discard: true})
		end := stage.Sink("end", func(_ context.Context, w result) error {
			sum += w.Value
			return nil
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Feed("hits", of.Stage, source.Checkpoint(numbers, 0, func(_ context.Context, at int64) error {
				n = at
				return nil
			})))
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context()))
		assert.Equal(t, 40_000, sum)
		assert.EqualValues(t, 40_000, n)
	})
}

func TestACrashOfAFunctionCostsItsCommandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		add := func(sum int, h hit) int {
			if h.Bytes < 0 {
				panic("negative")
			}
			return sum + h.Bytes
		}
		of := event.Tumbling("bytes", 60*s, event.Sum(hit.time, hit.host, add), event.Watermark[hit]{})
		p := run(t, of, &r)
		submit(t, of, hit{0, "a", 1}, hit{1, "a", -1}, hit{2, "b", -1}, hit{3, "a", 2})
		synctest.Wait()
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []string{"a[0,60) 3/2 early"}, r.take())
		require.Len(t, p.Quarantine().List(letters.Filter{}), 2)
	})
}

func TestACommandWithoutATimeOrAKeyFails(t *testing.T) {
	never := func(h hit) time.Time {
		if h.At < 0 {
			return time.Time{}
		}
		return h.time()
	}
	ratio := func(h hit) float64 { return float64(h.Bytes) / float64(h.Bytes) }
	of := event.Tumbling("bytes", 60*s, event.Sum(never, ratio, plus), event.Watermark[hit]{})
	end := stage.Sink("end", func(context.Context, event.Window[float64, int]) error { return nil })
	p, err := pipeline.New("test", of.To(end), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	_, err = of.Call(t.Context(), hit{At: -1, Bytes: 1})
	require.ErrorContains(t, err, "the time of the command is zero")
	_, err = of.Call(t.Context(), hit{At: 1, Bytes: 0})
	require.ErrorContains(t, err, "the key of the command is not equal to itself")
	require.NoError(t, p.Stop(t.Context()))
}
