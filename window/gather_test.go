package window_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// errPart is the error of a part that fails.
var errPart = errors.New("the part fails")

// part is what becomes of one part of a job on its way to the join.
type part struct {
	job, n  int
	pause   time.Duration
	fails   int  // how many tries fail
	crashes bool // the tries that fail do so by a panic
	dropped bool
}

type parts = window.Window[struct{}, []part]

// gathering is a pipeline that emits the parts of jobs, works on each, and joins them.
type gathering struct {
	t      require.TestingT
	p      *pipeline.Pipeline
	split  *stage.Flow[[]part, part]
	work   *stage.Flow[part, part]
	mu     sync.Mutex // guards the rest
	tries  map[[2]int]int
	begin  time.Time
	groups []string
	came   map[[2]int]int // how often each part was in a group
}

const attempts = 3

// fails counts a try at a part, and reports whether that fails.
func (g *gathering) fails(v part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries[[2]int{v.job, v.n}]++
	return g.tries[[2]int{v.job, v.n}] <= v.fails
}

func groupText(job int, ns []int, why window.Cause) string {
	slices.Sort(ns)
	return fmt.Sprint(job, " ", ns, " ", why)
}

func (g *gathering) add(w parts) {
	var ns []int
	for _, v := range w.Value {
		assert.Equal(g.t, w.Value[0].job, v.job, "a group has parts of one job")
		ns = append(ns, v.n)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range w.Value {
		g.came[[2]int{v.job, v.n}]++
	}
	g.groups = append(g.groups, groupText(w.Value[0].job, ns, w.Why))
}

func (g *gathering) take() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, g.groups = g.groups, nil
	slices.Sort(all)
	return all
}

// newGathering starts one.
func newGathering(t require.TestingT, of window.Parts[part], more ...pipeline.Part) *gathering {
	g := &gathering{t: t, tries: map[[2]int]int{}, came: map[[2]int]int{}, begin: time.Now()}
	g.split = stage.FlatMap("split", func(_ context.Context, job []part, emit func(part) error) error {
		for _, v := range job {
			if err := emit(v); err != nil {
				return err
			}
		}
		return nil
	})
	g.work = stage.Map("work", func(ctx context.Context, v part) (part, error) {
		time.Sleep(v.pause)
		switch {
		case !g.fails(v):
			return v, nil
		case v.crashes:
			panic(errPart)
		default:
			return v, errPart
		}
	}, stage.Workers(100, 100), stage.Batch(1), stage.Retry(stage.RetryPolicy{Attempts: attempts}))
	keep := stage.Filter("keep", func(_ context.Context, v part) (bool, error) { return !v.dropped, nil })
	join := window.JoinTicket("join", of)
	show := stage.Sink("show", func(_ context.Context, w parts) error { g.add(w); return nil })
	var err error
	g.p, err = pipeline.New("gathering", append(more, g.split.To(g.work), g.work.To(keep), keep.To(join), join.To(show),
		pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, g.p.Start(context.Background()))
	return g
}

func (g *gathering) stop() { require.NoError(g.t, g.p.Stop(context.Background())) }

// ask submits a job of parts, each with a pause.
func (g *gathering) ask(job int, vs ...part) *stage.Ticket {
	for i := range vs {
		vs[i].job, vs[i].n = job, i
	}
	ticket, err := g.split.Ask(context.Background(), vs)
	require.NoError(g.t, err)
	return ticket
}

func TestTheGroupOfATicketIsCompleteWhenItsPartsAreAllThatIsLeft(t *testing.T) {
	const s = time.Second
	minute := window.Parts[part]{Limit: time.Minute}
	with := func(change func(p *window.Parts[part])) window.Parts[part] {
		p := minute
		change(&p)
		return p
	}
	failed := part{pause: 2 * s, fails: attempts}
	tests := []struct {
		name  string
		parts window.Parts[part]
		job   []part
		after time.Duration
		want  []string
		err   error
	}{
		{"as soon as the last part has come", minute, []part{{}, {pause: 3 * s}, {pause: s}}, 3 * s, []string{"1 [0 1 2] full"}, nil},
		{"with one part", minute, []part{{}}, 0, []string{"1 [0] full"}, nil},
		{"without parts there is no group", minute, nil, 0, nil, nil},
		{"a part that is filtered out is not missing", minute, []part{{}, {pause: s, dropped: true}}, s, []string{"1 [0] full"}, nil},
		{"a part that is tried again is waited for", minute, []part{{}, {pause: s, fails: 1}}, 2 * s, []string{"1 [0 1] full"}, nil},
		{"a part that has failed makes it short", minute, []part{{}, failed}, 6 * s, []string{"1 [0] short"}, errPart},
		{"a part that has failed has the others fail", with(func(p *window.Parts[part]) { p.Fail = true }), []part{{}, failed}, 6 * s, nil, window.ErrIncomplete},
		{"no part comes", minute, []part{failed}, 6 * s, nil, errPart},
		{"the limit comes first", with(func(p *window.Parts[part]) { p.Limit = s }), []part{{}, {}, {pause: 3 * s}}, 3 * s, []string{"1 [0 1] due", "1 [2] full"}, nil},
		{"a count comes first", with(func(p *window.Parts[part]) { p.Count = 2 }), []part{{}, {pause: s}, {pause: 2 * s}}, 2 * s, []string{"1 [0 1] full", "1 [2] short"}, nil},
		{"a count is not reached", with(func(p *window.Parts[part]) { p.Count = 3 }), []part{{}, {pause: s}}, s, []string{"1 [0 1] short"}, nil},
		{"a function says that it is complete", with(func(p *window.Parts[part]) {
			p.Whole = func(all []part) bool { return len(all) == 2 }
		}), []part{{}, {}, {pause: s, dropped: true}}, 0, []string{"1 [0 1] full"}, nil},
		{"the bound of what is held comes first", with(func(p *window.Parts[part]) { p.Held = 1 }), []part{{}, {}, {pause: s}}, s, []string{"1 [0 1] early", "1 [2] full"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGathering(t, tt.parts)
				defer g.stop()
				ticket := g.ask(1, tt.job...)
				time.Sleep(tt.after + s/10) // retries wait for some milliseconds
				synctest.Wait()
				assert.Equal(t, tt.want, g.take())
				_, err := ticket.Wait(context.Background())
				if tt.err == nil {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, tt.err)
				}
			})
		})
	}
}

func TestTheGroupsOfTwoTicketsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, window.Parts[part]{Limit: time.Hour})
		defer g.stop()
		g.ask(1, part{}, part{pause: 2 * time.Second})
		g.ask(2, part{}, part{pause: time.Second})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"2 [0 1] full"}, g.take())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"1 [0 1] full"}, g.take())
	})
}

func TestACommandWithoutATicketIsRefusedByTheJoin(t *testing.T) {
	var letter error
	g := newGathering(t, window.Parts[part]{Limit: time.Minute}, pipeline.Failures(func(l stage.DeadLetter) { letter = l.Err }))
	require.NoError(t, g.split.Submit(context.Background(), []part{{}}))
	g.stop()
	require.ErrorIs(t, letter, window.ErrNoTicket)
	require.Empty(t, g.take())
}

func TestTheCommandsOfASourceWithACheckpointHaveTickets(t *testing.T) {
	var saved int64
	split := stage.FlatMap("split", func(_ context.Context, n int, emit func(int) error) error {
		return errors.Join(emit(n), emit(-n))
	})
	var got []int
	join := window.JoinTicket("join", window.Parts[int]{Limit: time.Hour})
	show := stage.Sink("show", func(_ context.Context, w window.Window[struct{}, []int]) error {
		slices.Sort(w.Value)
		got = append(got, w.Value...)
		return nil
	}, stage.Workers(1, 1))
	src := source.Checkpoint(source.Slice([]int{1, 2, 3}), 0, func(_ context.Context, position int64) error { saved = position; return nil })
	p, err := pipeline.New("checkpoint", split.To(join), join.To(show), pipeline.Feed("feed", split, src))
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	require.ElementsMatch(t, []int{-1, 1, -2, 2, -3, 3}, got)
	for i := 0; i < len(got); i += 2 {
		require.Equal(t, got[i], -got[i+1])
	}
	require.EqualValues(t, 3, saved)
}

func TestAJoinByTicketWithoutALimitIsRefused(t *testing.T) {
	for _, of := range []window.Parts[int]{{}, {Limit: -1}, {Limit: 1, Count: -1}, {Limit: 1, Held: -1}} {
		_, err := pipeline.New("bad", window.JoinTicket("join", of).To(stage.Sink("end",
			func(context.Context, window.Window[struct{}, []int]) error { return nil })))
		require.ErrorContains(t, err, `stage "join"`)
		require.ErrorContains(t, err, "Parts.")
	}
}

func TestAFunctionThatPanicsInAJoinByTicketCostsOnePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, window.Parts[part]{Limit: time.Hour, Whole: func(all []part) bool {
			if all[len(all)-1].n == 1 {
				panic("bad")
			}
			return false
		}})
		defer g.stop()
		ticket := g.ask(1, part{}, part{pause: time.Second}, part{pause: 2 * time.Second})
		_, err := ticket.Wait(t.Context())
		require.Error(t, err)
		synctest.Wait()
		require.Equal(t, []string{"1 [0 2] short"}, g.take())
	})
}

func TestADrainWaitsForThePartsOfATicketThatAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, window.Parts[part]{Limit: time.Hour})
		ticket := g.ask(1, part{}, part{pause: time.Second})
		g.stop()
		require.Equal(t, []string{"1 [0 1] full"}, g.take(), "a drain waits for the parts that are on their way")
		require.NoError(t, ticket.Err())
	})
}

// Each of two branches joins its half of the parts.
func TestGroupsOfOneTicketInTwoStagesWaitForTheLimitOrADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		show := stage.Sink("show", func(_ context.Context, w window.Window[struct{}, []int]) error {
			got = append(got, fmt.Sprint(w.Value, w.Why))
			return nil
		}, stage.Workers(1, 1))
		even := window.JoinTicket("even", window.Parts[int]{Limit: time.Second})
		odd := window.JoinTicket("odd", window.Parts[int]{Limit: time.Hour})
		split := stage.FlatMap("split", func(_ context.Context, n int, emit func(int) error) error {
			for i := range n {
				if err := emit(i); err != nil {
					return err
				}
			}
			return nil
		})
		p, err := pipeline.New("halves", split.Route(func(n, _ int) int { return n % 2 }, even, odd), even.To(show), odd.To(show),
			pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		_, err = stage.Call[any](t.Context(), split.Stage, 4)
		require.NoError(t, err)
		require.Equal(t, []string{"[0 2]due", "[1 3]full"}, got)

		ticket, err := split.Ask(context.Background(), 4)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, p.Stop(context.Background()))
		require.NoError(t, ticket.Err())
		require.Len(t, got, 4)
		require.Contains(t, got[2:], "[0 2]early")
	})
}

func TestACallerThatLeavesTakesItsPartsOutOfTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, window.Parts[part]{Limit: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ticket, err := g.split.Ask(ctx, []part{{n: 1}, {n: 2, pause: time.Minute}})
		require.NoError(t, err)
		synctest.Wait()
		cancel()
		time.Sleep(time.Hour)
		require.ErrorIs(t, ticket.Err(), context.Canceled)
		g.stop()
		require.Empty(t, g.take())
	})
}

func TestAHardStopEndsThePartsInAJoinByTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, window.Parts[part]{Limit: time.Hour})
		ticket := g.ask(1, part{}, part{}, part{pause: time.Minute})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, g.p.Stop(ctx))
		time.Sleep(time.Hour)
		require.ErrorIs(t, ticket.Err(), stage.ErrStopped)
		require.Empty(t, g.take())
	})
}

func drawJob(t *rapid.T) (job []part) {
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		job = append(job, part{
			pause:   time.Duration(rapid.IntRange(0, 5).Draw(t, "pause")) * time.Second,
			fails:   max(0, rapid.IntRange(-3, attempts).Draw(t, "fails")),
			dropped: rapid.IntRange(0, 5).Draw(t, "dropped") == 0,
		})
	}
	return job
}

// wantedGroup is the group of a job, if no limit comes first: the parts that come to the join. It is "" if there are none.
func wantedGroup(of int, job []part) (text string, failed bool) {
	var ns []int
	why := window.Full
	for n, v := range job {
		switch {
		case v.fails == attempts:
			why = window.Short
		case !v.dropped:
			ns = append(ns, n)
		}
	}
	if len(ns) == 0 {
		return "", why == window.Short
	}
	return groupText(of, ns, why), why == window.Short
}

func TestEachTicketHasOneGroupWithExactlyThePartsThatCome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathering(t, window.Parts[part]{Limit: time.Hour})
			jobs := rapid.SliceOfN(rapid.Custom(drawJob), 1, 12).Draw(rt, "jobs")
			tickets := make([]*stage.Ticket, len(jobs))
			var want []string
			for i, job := range jobs {
				tickets[i] = g.ask(i, slices.Clone(job)...)
				time.Sleep(time.Duration(rapid.IntRange(0, 2).Draw(rt, "between")) * time.Second)
				if text, _ := wantedGroup(i, job); text != "" {
					want = append(want, text)
				}
			}
			slices.Sort(want)
			if !rapid.Bool().Draw(rt, "drained") {
				for _, ticket := range tickets {
					_, _ = ticket.Wait(context.Background())
				}
				require.Less(rt, time.Since(g.begin), time.Hour, "no group waited for the limit")
			}
			g.stop()
			require.Equal(rt, want, g.take())
			for i, ticket := range tickets {
				_, failed := wantedGroup(i, jobs[i])
				require.Equal(rt, failed, ticket.Err() != nil, "job %d: %v", i, ticket.Err())
			}
		})
	})
}

// With a limit and crashes it is chance which group a part is in.
func TestNoPartOfATicketIsLostOrTwiceWhateverClosesItsGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			of := window.Parts[part]{
				Limit: time.Duration(rapid.IntRange(1, 8).Draw(rt, "limit"))*time.Second + time.Millisecond,
				Count: rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(rt, "count"),
				Held:  rapid.SampledFrom([]int{0, 0, 3}).Draw(rt, "held"),
			}
			if of.Held > 0 {
				of.Count = min(of.Count, of.Held)
			}
			g := newGathering(t, of)
			jobs := rapid.SliceOfN(rapid.Custom(drawJob), 1, 12).Draw(rt, "jobs")
			tickets := make([]*stage.Ticket, len(jobs))
			for i := range jobs {
				for n := range jobs[i] {
					jobs[i][n].crashes = rapid.IntRange(0, 9).Draw(rt, "crashes") == 0
				}
				tickets[i] = g.ask(i, slices.Clone(jobs[i])...)
			}
			g.stop()
			for i, job := range jobs {
				select {
				case <-tickets[i].Done():
				default:
					require.Fail(rt, "a ticket has not ended")
				}
				for n, v := range job {
					if v.fails < attempts && !v.dropped {
						require.Equal(rt, 1, g.came[[2]int{i, n}], "part %d of job %d", n, i)
					} else {
						require.Zero(rt, g.came[[2]int{i, n}], "part %d of job %d", n, i)
					}
				}
			}
		})
	})
}

func TestManyTicketsAtOnceHaveOneCompleteGroupEach(t *testing.T) {
	const callers, calls = 8, 100
	g := newGathering(t, window.Parts[part]{Limit: time.Hour})
	var want []string
	var all sync.WaitGroup
	for c := range callers {
		for i := range calls {
			job := c*calls + i
			ns := []int{0, 1, 2, 3, 4, 5, 6}[:1+job%7]
			if job%7 == 6 { // the last part is taken out
				ns = ns[:6]
			}
			want = append(want, groupText(job, slices.Clone(ns), window.Full))
		}
		all.Go(func() {
			for i := range calls {
				job := c*calls + i
				vs := make([]part, 1+job%7)
				if job%7 == 6 {
					vs[6].dropped = true
				}
				for n := range vs {
					vs[n].job, vs[n].n = job, n
				}
				_, err := stage.Call[any](context.Background(), g.split.Stage, vs)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	g.stop()
	slices.Sort(want)
	require.Equal(t, want, g.take())
}
