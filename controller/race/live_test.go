package race_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/race"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

const milli = time.Millisecond

// known is a pipeline of which an argument says which policy is the best one. Its handlers sleep, so that in virtual time it does
// exactly what it would do on a machine with as many CPUs as it needs.
type known struct {
	// make returns its stages, the first of which gets the load. Stages have their commands answered with done.
	make    func(done func(at time.Time)) []pipeline.Part
	rate    func(since time.Duration) float64 // commands a second, a Poisson process
	present controller.Policy
	others  []controller.Policy
	within  time.Duration
	want    string     // with which the advice begins
	goodput [2]float64 // by the argument, from and to
}

func steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// takes sleeps for a half to three halves of a time.
func takes(mean time.Duration) { time.Sleep(time.Duration((0.5 + rand.Float64()) * float64(mean))) }

// work returns the handler of a last stage.
func work(mean time.Duration, done func(time.Time)) func(context.Context, time.Time) error {
	return func(_ context.Context, at time.Time) error {
		takes(mean)
		done(at)
		return nil
	}
}

// fast returns a first stage that takes 1 ms and forwards to another one.
func fast(to *stage.Flow[time.Time, struct{}], opts ...stage.Option) pipeline.Part {
	return stage.Func("accept", func(_ context.Context, at time.Time) behaviour.Outcome {
		time.Sleep(milli)
		return behaviour.Forward(to, at)
	}, append(opts, stage.Capacity(256), stage.Overflow(overflow.Reject), stage.Out(to))...)
}

var five = map[string]known{
	// 100 a second of 40 ms keep 4 workers busy, and there are 2. They do 50 a second, and whatever they answer has waited behind
	// 256 commands, for 5 s. Only backlog adds workers. CoDel answers soon what 2 workers can do: 50 a second.
	"handlers that wait, and too few workers": {
		make: func(done func(time.Time)) []pipeline.Part {
			return []pipeline.Part{
				stage.Sink("fetch", work(40*milli, done), stage.Workers(2, 32), stage.Blocking(), stage.Capacity(256), stage.Overflow(overflow.Reject)),
			}
		},
		rate: steady(100), within: 500 * milli, present: policy.Fixed{},
		others: []controller.Policy{policy.CoDel{}, policy.Backlog{}, policy.DBR{}},
		want:   "switch from fixed to backlog", goodput: [2]float64{93, 107},
	},
	// 2 workers do 50 a second of 40 ms, and there may be no more; 100 come. Backlog can do nothing. In the order of arrival each
	// command waits for 5 s, and none is answered in time; CoDel drops the old ones, so that all work goes to commands in time.
	"an overload that no worker can be added for": {
		make: func(done func(time.Time)) []pipeline.Part {
			return []pipeline.Part{
				stage.Sink("query", work(40*milli, done), stage.Workers(2, 2), stage.Blocking(), stage.Capacity(256), stage.Overflow(overflow.Reject)),
			}
		},
		rate: steady(100), within: 500 * milli, present: policy.Backlog{},
		others: []controller.Policy{policy.Fixed{}, policy.SEDA{}, policy.CoDel{}},
		want:   "switch from backlog to codel", goodput: [2]float64{44, 53},
	},
	// The overload is at the second stage: it does 50 a second, and 100 come. CoDel looks at the stages that commands enter, whose
	// queue is empty until all is full. Only a door at the entry keeps the queue of the second stage short.
	"an overload behind the first stage": {
		make: func(done func(time.Time)) []pipeline.Part {
			query := stage.Sink("query", work(40*milli, done), stage.Workers(2, 2), stage.Blocking(), stage.Capacity(256))
			return []pipeline.Part{fast(query, stage.Workers(2, 2), stage.Blocking()), query}
		},
		rate: steady(100), within: 500 * milli, present: policy.Fixed{},
		others: []controller.Policy{policy.Backlog{}, policy.CoDel{}, policy.Objective{Within: 500 * milli}},
		want:   "switch from fixed to objective", goodput: [2]float64{42, 53},
	},
	// Two stages of a worker each: the second one, of 20 ms, does 50 a second, and 60 come. Two workers that serve both stages do
	// 2/(21 ms), 95 a second. No policy may add a worker to a stage; SRPT has both serve the second stage first.
	"a worker that is idle while another one has too much to do": {
		make: func(done func(time.Time)) []pipeline.Part {
			pack := stage.Sink("pack", work(20*milli, done), stage.Workers(1, 1), stage.Instances(2), stage.Capacity(256))
			return []pipeline.Part{fast(pack, stage.Workers(1, 1), stage.Instances(2)), pack}
		},
		rate: steady(60), within: 500 * milli, present: policy.Backlog{},
		others: []controller.Policy{policy.Fixed{}, policy.SEDA{}, policy.CoDel{}, policy.SRPT{Workers: 2}},
		want:   "switch from backlog to srpt", goodput: [2]float64{55, 65},
	},
	// A third of the commands goes to each of three stages, which are busy for a third of their time (M/M/1): all that comes is answered
	// in time, by any policy, and there is nothing to gain.
	"a load that any policy bears": {
		make: func(done func(time.Time)) []pipeline.Part {
			var to []behaviour.Target[time.Time]
			var parts []pipeline.Part
			for _, name := range []string{"a", "b", "c"} {
				s := stage.Sink(name, work(20*milli, done), stage.Workers(1, 1))
				to, parts = append(to, s), append(parts, s)
			}
			first := stage.Func("route", func(_ context.Context, at time.Time) behaviour.Outcome {
				return behaviour.Forward(to[rand.IntN(3)], at)
			}, stage.Workers(1, 1))
			return append([]pipeline.Part{first}, parts...)
		},
		rate: steady(50), within: 500 * milli, present: policy.Backlog{},
		others: []controller.Policy{policy.Fixed{}, policy.SEDA{}, policy.CoDel{Target: 100 * milli}},
		want:   "stay with backlog", goodput: [2]float64{45, 55},
	},
}

// measured has the answers of a pipeline in a time.
type measured struct {
	mu  sync.Mutex
	all []answer
}

type answer struct {
	at   time.Time
	took time.Duration
}

func (m *measured) done(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, answer{at, time.Since(at)})
}

// between returns the commands of a time: how many a second were answered in time, and the 99th percentile of all answers.
func (m *measured) between(from, to time.Time, within time.Duration) (goodput, p99 float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var times []time.Duration
	n := 0
	for _, a := range m.all {
		if !a.at.Before(from) && a.at.Before(to) {
			times = append(times, a.took)
			if a.took <= within {
				n++
			}
		}
	}
	slices.Sort(times)
	if len(times) > 0 {
		p99 = times[len(times)*99/100].Seconds()
	}
	return float64(n) / to.Sub(from).Seconds(), p99
}

// load submits commands until the context ends. It waits for no answer.
func load(ctx context.Context, first pipeline.Part, rate func(time.Duration) float64) {
	to := first.(interface {
		Submit(ctx context.Context, at time.Time) error
	})
	begin := time.Now()
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.ExpFloat64() / rate(time.Since(begin)) * 1e9))
		_ = to.Submit(ctx, time.Now()) // refused, perhaps
	}
}

func started(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("p", append(parts, pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.KeepLetters(letters.Options{Most: 1}))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p
}

// The race names the best policy, and the pipeline does what it promises.
func TestTheRaceOfARunningPipelineNamesTheBestPolicyAndKeepsItsPromise(t *testing.T) {
	for name, c := range five {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Second) }) // for goroutines that end
				var m measured
				parts := c.make(m.done)
				first := parts[0]
				p := started(t, append(parts, pipeline.Control(c.present))...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go load(ctx, first, c.rate)
				r, err := race.Live(t.Context(), p, race.Aim{Within: c.within, For: time.Minute, Runs: 5}, c.others...)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(r.Advice(), c.want), r.Advice())
				promised := r.Present
				if best := r.Better(); best != nil {
					promised = *best
					require.NoError(t, p.SetPolicy(best.Policy))
				}
				time.Sleep(30 * time.Second)
				from := time.Now()
				time.Sleep(2 * time.Minute)
				to := time.Now()
				time.Sleep(10 * time.Second)
				cancel()
				require.NoError(t, p.Stop(context.Background()))
				goodput, p99 := m.between(from, to, c.within)
				t.Logf("%s\nlive: %.1f a second, 99 of 100 after %.3f s", r, goodput, p99)
				require.InEpsilon(t, promised.Goodput.Median, goodput, 0.2)
				require.LessOrEqual(t, p99, 2*promised.P99.Median, "of a minute or two, it varies by a third; workers from before may make it shorter")
				require.GreaterOrEqual(t, goodput, c.goodput[0])
				require.LessOrEqual(t, goodput, c.goodput[1])
			})
		})
	}
}

// modelOf returns the report of a race with one other policy, after some seconds.
func modelOf(t *testing.T, p *pipeline.Pipeline, aim race.Aim) *race.Report {
	t.Helper()
	aim.For, aim.Runs = 20*time.Second, 5
	r, err := race.Live(t.Context(), p, aim, policy.CoDel{})
	require.NoError(t, err)
	return r
}

func TestTheModelHasTheEdgesTimesAndOptionsOfThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		end := stage.Sink("end", func(context.Context, time.Time) error { return nil }, stage.TTL(time.Minute), stage.Rate(1000, time.Second, 5))
		n := 0
		tries := stage.Sink("tries", func(context.Context, time.Time) error {
			if n++; n%5 == 0 {
				return errors.New("no")
			}
			return nil
		}, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond}))
		var again *stage.Stage[time.Time]
		k := 0
		again = stage.Func("again", func(ctx context.Context, at time.Time) behaviour.Outcome {
			time.Sleep(8 * milli)
			for range 2 {
				if err := behaviour.Emit(ctx, tries, at); err != nil {
					return behaviour.Error(err)
				}
			}
			if k++; k%4 == 0 {
				return behaviour.Forward(again, at)
			}
			return behaviour.Forward(end, at)
		}, stage.Workers(1, 3), stage.Blocking(), stage.Capacity(77), stage.Overflow(overflow.Reject), stage.Discipline(queue.LIFO{}))
		p := started(t, again, end, pipeline.Group("g", 1, 4, tries), pipeline.Control(policy.Fixed{}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go load(ctx, again, steady(50))
		r := modelOf(t, p, race.Aim{})
		cancel()
		require.NoError(t, p.Stop(context.Background()))

		m := r.Model
		require.Empty(t, r.Missing)
		require.Len(t, m.Sources, 1)
		require.Equal(t, "again", m.Sources[0].To)
		require.Len(t, m.Pools, 1)
		require.Equal(t, simulator.Pool{Name: "g", Workers: 1, Most: 4}, m.Pools[0])
		stages := map[string]simulator.Stage{}
		for _, st := range m.Stages {
			stages[st.Name] = st
		}
		a := stages["again"]
		require.Equal(t, []any{1, 3, 3, 77, true, false, queue.LIFO{}}, []any{a.Workers, a.Most, a.Instances, a.Capacity, a.Reject, a.Computes, a.Discipline})
		share := func(all []simulator.Edge, to string) float64 {
			sum := 0.0
			for _, e := range all {
				if e.To == to {
					sum += e.Share
				}
			}
			return sum
		}
		all := slices.Concat(a.Forward, a.Emit)
		require.InDelta(t, 2, share(all, "tries"), 0.02)
		require.InDelta(t, 0.25, share(all, "again"), 0.02)
		require.InDelta(t, 0.75, share(all, "end"), 0.02)
		require.InDelta(t, 1, share(a.Forward, "tries")+share(a.Forward, "again")+share(a.Forward, "end"), 1e-6)
		sum := time.Duration(0)
		for _, d := range a.Service.(simulator.Trace) {
			sum += d
		}
		require.InEpsilon(t, 8*milli, sum/time.Duration(len(a.Service.(simulator.Trace))), 0.02)
		require.InDelta(t, 0.2, stages["tries"].Fails, 0.02)
		require.Equal(t, "g", stages["tries"].Pool)
		require.Equal(t, 3, stages["tries"].Retry.Attempts)
		require.Equal(t, time.Minute, stages["end"].TTL)
		require.Equal(t, controller.Rate{PerSecond: 1000, Burst: 5}, stages["end"].Rate)
	})
}

// What the model cannot have is named, in place of a guess.
func TestTheReportNamesWhatTheModelLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		ordered := stage.Sink("ordered", func(context.Context, time.Time) error { return nil }, stage.Ordered())
		keyed := stage.Keyed("keyed", func(at time.Time) int { return at.Nanosecond() / 1000 % 7 }, func(int) behaviour.Behaviour[time.Time] {
			return behaviour.Func[time.Time](func(_ context.Context, at time.Time) behaviour.Outcome { return behaviour.Forward(ordered, at) })
		})
		slow := stage.Sink("slow", work(40*milli, func(time.Time) {}), stage.Workers(1, 1), stage.Capacity(4), stage.Discipline(queue.PriorityOf(func(time.Time) int { return 1 })))
		p := started(t, keyed, slow, ordered, pipeline.Control(policy.Objective{Stage: "slow", Keep: true}, policy.CoDel{}), pipeline.ControlFor("ordered", policy.Fixed{}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go load(ctx, keyed, steady(50))
		go load(ctx, slow, steady(50))
		r := modelOf(t, p, race.Aim{})
		cancel()
		require.NoError(t, p.Stop(context.Background()))
		text := r.String()
		for _, want := range []string{
			`the objective is about stage "slow"`, `"ordered" has a controller of its own`, `stage "ordered": results leave in order`,
			`the keys of stage "keyed" have different loads: in the model each of 7 keys`, `stage "slow" takes its commands by priority`,
			`callers waited at stage "slow" for `,
		} {
			require.Contains(t, text, want)
		}
		require.Equal(t, 500*milli, r.Within, "the objective's")
		require.ErrorContains(t, r.Present.Fault, "several policies together are not simulated")
		require.Contains(t, r.Advice(), "the present policy could not be simulated")
	})
}

// A lock that the model does not know: the stage does less than its workers could.
func TestAModelThatDoesNotDoWhatThePipelineDidIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		slow := stage.Sink("slow", work(40*milli, func(time.Time) {}), stage.Workers(1, 1))
		p := started(t, slow, pipeline.Control(policy.Fixed{}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go load(ctx, slow, steady(50))
		go func() { // an operator pauses the stage for half of the time
			for ctx.Err() == nil {
				_ = p.Pause(slow)
				time.Sleep(300 * milli)
				_ = p.Resume(slow)
				time.Sleep(300 * milli)
			}
		}()
		r := modelOf(t, p, race.Aim{})
		cancel()
		require.NoError(t, p.Stop(context.Background()))
		require.Contains(t, r.String(), `stage "slow" handled 1`)
		require.Contains(t, r.String(), "something else limits it")
	})
}

func TestARaceOfAPipelineThatCannotBeRecordedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		s := stage.Sink("s", func(context.Context, time.Time) error { return nil })
		p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		_, err = race.Live(t.Context(), p, race.Aim{})
		require.ErrorIs(t, err, pipeline.ErrNotRunning)
		require.NoError(t, p.Start(t.Context()))
		for _, aim := range []race.Aim{{For: time.Millisecond}, {For: -1}, {Runs: 1}, {Within: -1}} {
			_, err = race.Live(t.Context(), p, aim)
			require.Error(t, err)
		}
		_, err = race.Live(t.Context(), p, race.Aim{})
		require.ErrorContains(t, err, `pipeline "p" got 0 commands in 1m0s`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = race.Live(ctx, p, race.Aim{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(time.Second, func() { _ = p.Stop(context.Background()) })
		_, err = race.Live(t.Context(), p, race.Aim{})
		require.ErrorIs(t, err, pipeline.ErrStopped)
		require.PanicsWithValue(t, "race: Live: nil context", func() { _, _ = race.Live(nil, p, race.Aim{}) }) //nolint:staticcheck // on purpose
	})
}
