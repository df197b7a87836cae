package stage_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

// tallies counts lines by key.
type tallies struct {
	mu sync.Mutex
	of map[string]int
}

func (t *tallies) add(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[key]++
}

// counted returns the counts. Handlers may be at work: after a streak of crashes a stage pauses.
func (t *tallies) counted() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.of)
}

func (t *tallies) count(_ context.Context, line string) (string, error) {
	t.add(line)
	return line, nil
}

// hostCounter counts the lines of one key, and yields for each.
type hostCounter struct {
	of  *tallies
	key string
}

func (t *hostCounter) HandleCommand(context.Context, string) behaviour.Outcome {
	t.of.add(t.key)
	return behaviour.OK(nil)
}

type yielder struct{ hostCounter }

func (y *yielder) HandleSuspending(c behaviour.Suspender, line string) behaviour.Outcome {
	if err := coroutine.Yield(c); err != nil {
		return behaviour.Error(err)
	}
	return y.HandleCommand(c, line)
}

// hostOf is the key of a line. A line without a host has none.
func hostOf(line string) string {
	if line == "bad" {
		panic("the line has no host")
	}
	return line
}

// numberOf is a key that is not equal to itself, for a bad line.
func numberOf(line string) float64 {
	if line == "bad" {
		return math.NaN()
	}
	var n float64
	_, _ = fmt.Sscanf(line, "host %g", &n)
	return n
}

// anyOf is a key that cannot be compared, for a bad line.
func anyOf(line string) any {
	if line == "bad" {
		return []string{line}
	}
	return line
}

// weightOfHost is the weight of a host in capitals. A bad line has none.
func weightOfHost(host string) int {
	if host == "BAD" {
		return 0
	}
	return len(host)
}

// keyedBy are stages whose handlers or results are apart by key, with what the letters of bad lines say.
var keyedBy = map[string]struct {
	make func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part)
	says string
}{
	"Map": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", func(ctx context.Context, line string) (string, error) { return t.count(ctx, hostOf(line)) }, opts...)
		return s.Stage, s
	}, "the line has no host"},
	"Keyed": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", hostOf, func(k string) *hostCounter { return &hostCounter{t, k} }, opts...))
	}, "the line has no host"},
	"Keyed that suspends": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", hostOf, func(k string) *yielder { return &yielder{hostCounter{t, k}} }, opts...))
	}, "the line has no host"},
	"Keyed by numbers": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", numberOf, func(k float64) *hostCounter { return &hostCounter{t, fmt.Sprint("host ", k)} }, opts...))
	}, "NaN is not equal to itself"},
	"Keyed by numbers that suspends": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", numberOf, func(k float64) *yielder { return &yielder{hostCounter{t, fmt.Sprint("host ", k)}} }, opts...))
	}, "NaN is not equal to itself"},
	"Keyed by anything": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", anyOf, func(k any) *hostCounter { return &hostCounter{t, k.(string)} }, opts...))
	}, "[]string"},
	"Keyed with RateBy": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Keyed("count", hostOf, func(k string) *hostCounter { return &hostCounter{t, k} },
			append(opts, stage.RateBy(hostOf, 1000, time.Second, 10))...))
	}, "the line has no host"},
	"RateBy": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.RateBy(hostOf, 1000, time.Second, 10))...)
		return s.Stage, s
	}, "the line has no host"},
	"RateBy numbers": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.RateBy(numberOf, 1000, time.Second, 10))...)
		return s.Stage, s
	}, "NaN is not equal to itself"},
	"RateBy anything": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.RateBy(anyOf, 1000, time.Second, 10))...)
		return s.Stage, s
	}, "[]string"},
	"Fair": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.Fair(hostOf, nil, 0))...)
		return s.Stage, s
	}, "the line has no host"},
	"Fair numbers": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.Fair(numberOf, nil, 2))...)
		return s.Stage, s
	}, "NaN is not equal to itself"},
	"Fair weights": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		s := stage.Map("count", t.count, append(opts, stage.Fair(strings.ToUpper, weightOfHost, 1))...)
		return s.Stage, s
	}, "the key BAD has the weight 0; it must be at least 1"},
	"Fair that suspends": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		return itself(stage.Coroutine("count", func(c behaviour.Suspender, line string) behaviour.Outcome {
			return (&yielder{hostCounter{t, line}}).HandleSuspending(c, line)
		}, append(opts, stage.Fair(hostOf, nil, 2))...))
	}, "the line has no host"},
	"Route by key": {func(t *tallies, opts ...stage.Option) (*stage.Stage[string], pipeline.Part) {
		read := stage.Map("read", func(_ context.Context, line string) (string, error) { return line, nil }, opts...)
		save := func(_ context.Context, line string) error { t.add(line); return nil }
		return read.Stage, read.Route(route.ByKey(hostOf), stage.Sink("left", save), stage.Sink("right", save))
	}, "the line has no host"},
}

func itself(s *stage.Stage[string]) (*stage.Stage[string], pipeline.Part) { return s, s }

// A twentieth of the lines has no key, at random places. Some come one by one, some at once, and a queue may hold all of them.
func TestLinesWithoutAKeyAreLettersAndAllOthersAreCounted(t *testing.T) {
	const hosts = 10
	lines := 2000
	if raced {
		lines = 400
	}
	ways := map[string]func(t *testing.T, s *stage.Stage[string], lines []string){
		"one by one": func(t *testing.T, s *stage.Stage[string], lines []string) {
			for _, line := range lines {
				require.NoError(t, s.Submit(t.Context(), line))
			}
		},
		"at once": func(t *testing.T, s *stage.Stage[string], lines []string) {
			_, err := s.SubmitAll(t.Context(), lines...)
			require.NoError(t, err)
		},
	}
	for name, one := range keyedBy {
		for way, submit := range ways {
			for _, capacity := range []int{16, lines} {
				for _, tries := range []int{1, 3} {
					t.Run(fmt.Sprintf("%s/%s/%d/%d tries", name, way, capacity, tries), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							got := &tallies{of: map[string]int{}}
							retry := stage.RetryPolicy{Attempts: tries}
							if tries > 1 {
								retry.Backoff = time.Millisecond
							}
							s, part := one.make(got, stage.Capacity(capacity), stage.Retry(retry))
							p := run(t, part)
							want, bad := map[string]int{}, 0
							all := make([]string, lines)
							for i := range all {
								if all[i] = fmt.Sprint("host ", rand.IntN(hosts)); rand.IntN(20) == 0 {
									all[i], bad = "bad", bad+1
									continue
								}
								want[all[i]]++
							}
							submit(t, s, all)
							synctest.Wait()
							time.Sleep(time.Minute)
							require.Equal(t, want, got.counted(), "every good line is counted, while the stage is up")
							list := p.Quarantine().List(letters.Filter{})
							require.Len(t, list, bad)
							for _, l := range list {
								require.ErrorContains(t, l.Err, one.says)
								require.Equal(t, tries, l.Attempts)
								require.Equal(t, "bad", l.Command)
							}
						})
					})
				}
			}
		}
	}
}

func TestAStageOfWhichNoCommandHasAKeyGoesOn(t *testing.T) {
	for name, one := range keyedBy {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := &tallies{of: map[string]int{}}
				s, part := one.make(got, stage.Workers(2, 2), stage.Capacity(500))
				p := run(t, part)
				_, err := s.SubmitAll(t.Context(), append(slices.Repeat([]string{"bad"}, 100), "host 1")...)
				require.NoError(t, err)
				require.NoError(t, p.Drain(t.Context()))
				require.NoError(t, p.Err())
				synctest.Wait() // for the last letter
				require.Equal(t, 100, p.Quarantine().Len())
				require.Equal(t, map[string]int{"host 1": 1}, got.counted())
			})
		})
	}
}

// The retry of a command without a key holds up none: no order is owed between such commands.
func TestCommandsWithoutAKeyAreTriedAgainAtTheSameTime(t *testing.T) {
	for _, name := range []string{"Keyed", "Keyed that suspends", "Keyed with RateBy", "RateBy", "Fair", "Fair numbers", "Fair that suspends"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, part := keyedBy[name].make(&tallies{of: map[string]int{}}, stage.Workers(1, 1),
					stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Minute}))
				p := run(t, part)
				for range 5 {
					require.NoError(t, s.Submit(t.Context(), "bad"))
				}
				time.Sleep(2 * time.Minute)
				require.Equal(t, 5, p.Quarantine().Len())
			})
		})
	}
}

// poison makes a keyed stage whose handlers crash for key 0.
func poison(suspends bool, opts ...stage.Option) *stage.Stage[item] {
	l := newLedger()
	crashing := func(i item, _ int) behaviour.Outcome {
		if i.key == 0 {
			panic("poison")
		}
		return behaviour.OK(nil)
	}
	if suspends {
		return l.suspending(anyWait, crashing, opts...)
	}
	return l.stage(crashing, opts...)
}

// Its commands come between others, and are handled after them, since they are queued apart.
func TestAKeyWhoseCommandsAllCrashBreaksNoStage(t *testing.T) {
	for _, suspends := range []bool{false, true} {
		for _, capacity := range []int{16, 2000} {
			t.Run(fmt.Sprintf("suspends %v/%d", suspends, capacity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := poison(suspends, stage.Capacity(capacity))
					p := run(t, s)
					bad := 0
					for i := range 2000 {
						k := 1 + rand.IntN(10)
						if rand.IntN(20) == 0 {
							k, bad = 0, bad+1
						}
						require.NoError(t, s.Submit(t.Context(), item{k, i}))
					}
					require.NoError(t, p.Drain(t.Context()))
					synctest.Wait() // for the last letter
					require.Equal(t, bad, p.Quarantine().Len())
					require.EqualValues(t, 2000-bad, s.Snapshot().Counts.OK)
				})
			})
		}
	}
}

func TestALimitCountsTheCrashesOfOneKeyEach(t *testing.T) {
	for _, suspends := range []bool{false, true} {
		t.Run(fmt.Sprintf("suspends %v", suspends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := poison(suspends, stage.Workers(1, 1), stage.Capacity(500), stage.Restart(stage.RestartPolicy{Limit: 15}))
				p, err := pipeline.New("test", s, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				_, err = s.SubmitAll(t.Context(), make([]item, 100)...)
				require.NoError(t, err)
				<-p.Done()
				var broken *stage.BrokenError
				require.ErrorAs(t, p.Err(), &broken)
				require.Equal(t, 17, broken.Crashes)
			})
		})
	}
}
