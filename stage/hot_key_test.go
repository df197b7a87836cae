package stage_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// hot is a key whose commands come faster than they are handled.
const hot = 0

// slowKey is an instance whose commands take a second if its key is hot.
type slowKey int

func (k slowKey) HandleCommand(ctx context.Context, _ item) behaviour.Outcome {
	if k == hot {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return behaviour.OK(nil)
}

func slowKeys(opts ...stage.Option) *stage.Stage[item] {
	return stage.Keyed("orders", keyOf, func(k int) slowKey { return slowKey(k) }, opts...)
}

// slowFair is slowKeys as a fair stage: one handler at a time has commands of one key.
func slowFair(opts ...stage.Option) *stage.Stage[item] {
	handle := func(ctx context.Context, i item) behaviour.Outcome { return slowKey(i.key).HandleCommand(ctx, i) }
	return stage.Func("orders", handle, append(opts, stage.Fair(keyOf, nil, 1))...)
}

// slowSuspending is slowFair with handlers that suspend.
func slowSuspending(opts ...stage.Option) *stage.Stage[item] {
	handle := func(c behaviour.Suspender, i item) behaviour.Outcome {
		if i.key == hot {
			_ = coroutine.Sleep(c, time.Second)
		}
		return behaviour.OK(nil)
	}
	return stage.Coroutine("orders", handle, append(opts, stage.Instances(2), stage.Fair(keyOf, nil, 1))...)
}

// slowOnes make stages with a hot key, which is slow.
var slowOnes = map[string]func(opts ...stage.Option) *stage.Stage[item]{"keyed": slowKeys, "fair": slowFair, "fair, suspending": slowSuspending}

// flood submits commands of the hot key until it is ended.
func flood(submit func(context.Context, item) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var submitters sync.WaitGroup
	for range 50 {
		submitters.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_ = submit(ctx, item{hot, i})
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() { cancel(); submitters.Wait() }
}

// ways are how commands get into a keyed stage.
var ways = map[string]func(s *stage.Stage[item]) (parts []pipeline.Part, submit func(context.Context, item) error){
	"submitted": func(s *stage.Stage[item]) ([]pipeline.Part, func(context.Context, item) error) {
		return []pipeline.Part{s}, s.Submit
	},
	"called": func(s *stage.Stage[item]) ([]pipeline.Part, func(context.Context, item) error) {
		return []pipeline.Part{s}, func(ctx context.Context, i item) error {
			_, err := s.Ask(ctx, i)
			return err
		}
	},
	"forwarded": func(s *stage.Stage[item]) ([]pipeline.Part, func(context.Context, item) error) {
		before := forwarder("hot orders", s)
		return []pipeline.Part{before, s}, before.Submit
	},
	"emitted": func(s *stage.Stage[item]) ([]pipeline.Part, func(context.Context, item) error) {
		before := stage.Func("hot orders", func(ctx context.Context, i item) behaviour.Outcome {
			if err := behaviour.Emit(ctx, s, i); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(nil)
		}, stage.Out(s), stage.Capacity(16))
		return []pipeline.Part{before, s}, before.Submit
	},
	"forwarded in a group": func(s *stage.Stage[item]) ([]pipeline.Part, func(context.Context, item) error) {
		before := forwarder("hot orders", s, stage.Capacity(4))
		return []pipeline.Part{pipeline.Group("g", 2, 2, before), s}, before.Submit
	},
}

func forwarder(name string, to *stage.Stage[item], opts ...stage.Option) *stage.Stage[item] {
	return stage.Func(name, func(_ context.Context, i item) behaviour.Outcome { return behaviour.Forward(to, i) },
		append([]stage.Option{stage.Defaults(stage.Capacity(16)), stage.Out(to)}, opts...)...)
}

// One key floods the stage by one way. Commands of other keys come straight to the stage.
func TestAHotKeyHoldsUpNoOtherKey(t *testing.T) {
	rules := map[string]overflow.Rule{"wait": overflow.Wait, "reject": overflow.Reject, "oldest": overflow.DropOldest, "newest": overflow.DropNewest}
	n := 0
	for way, by := range ways {
		most := 4 + 3
		if way == "forwarded in a group" {
			most = 4 + 2*4 // each of the shared workers brings all that it has of the stage before; that must leave slots to other keys
		}
		for name, rule := range rules {
			for kind, slow := range slowOnes {
				if n++; raced && testing.Short() && n%6 > 0 {
					continue // other combinations each time: the order of a map is random
				}
				t.Run(way+"/"+name+"/"+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := slow(stage.Capacity(16), stage.Workers(2, 2), stage.Overflow(rule))
						parts, submit := by(s)
						p, err := pipeline.New("test", append(parts, quiet)...)
						require.NoError(t, err)
						require.NoError(t, p.Start(t.Context()))
						end := flood(submit)
						time.Sleep(100 * time.Millisecond)
						for i := range 100 {
							began := time.Now()
							_, err := stage.Call[any](t.Context(), s, item{1 + i%10, i})
							require.NoError(t, err)
							require.Less(t, time.Since(began), 100*time.Millisecond, "command %d", i)
							require.LessOrEqual(t, s.Snapshot().Queue.Queued, most)
							time.Sleep(10 * time.Millisecond)
						}
						end()
						stopped, cancel := context.WithCancel(t.Context())
						cancel()
						_ = p.Stop(stopped)
						require.True(t, p.Snapshot().Balanced())
						time.Sleep(time.Second) // protoactor throttles its log of late messages
					})
				})
			}
		}
	}
}

// crashingKey is a slowKey whose handler crashes for each third hot command, after a tenth of a second.
type crashingKey int

func (k crashingKey) HandleCommand(ctx context.Context, i item) behaviour.Outcome {
	if k == hot && i.n%3 == 0 {
		time.Sleep(100 * time.Millisecond)
		panic("hot")
	}
	return slowKey(k).HandleCommand(ctx, i)
}

// othersGoOn requires that commands of other keys are handled soon while a hot key floods the stage, and that no more commands of the hot
// key than most are queued.
func othersGoOn(t *testing.T, s *stage.Stage[item], most int, each func(i int)) {
	t.Helper()
	end := flood(s.Submit)
	defer end()
	time.Sleep(100 * time.Millisecond)
	for i := range 100 {
		each(i)
		began := time.Now()
		_, err := stage.Call[any](t.Context(), s, item{1 + i%10, i})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 600*time.Millisecond, "command %d: at most some crashes of the hot key, of a tenth of a second each", i)
		require.LessOrEqual(t, s.Snapshot().Queue.Queued, most)
		time.Sleep(10 * time.Millisecond)
	}
}

// stopHard stops a pipeline hard, and requires that each command has ended.
func stopHard(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(stopped)
	snap := p.Snapshot()
	require.True(t, snap.Balanced(), snap.Law())
	require.Zero(t, snap.InFlight, snap.Law())
	time.Sleep(time.Second) // protoactor throttles its log of late messages
}

func TestAHotKeyWhoseHandlerCrashesHoldsUpNoOtherKey(t *testing.T) {
	for name, c := range map[string]struct {
		opts []stage.Option
		most int
	}{
		"once":        {nil, 4 + 4},                                                         // the command that crashed a batch comes back beside the others
		"tried again": {[]stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 3})}, 4 + 5}, // one holds no slot while it waits for its next try
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage.Keyed("orders", keyOf, func(k int) crashingKey { return crashingKey(k) },
					append(c.opts, stage.Capacity(16), stage.Workers(2, 2))...)
				p, err := pipeline.New("test", s, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				othersGoOn(t, s, c.most, func(int) {})
				require.Positive(t, s.Snapshot().Counts.Crashes)
				stopHard(t, p)
			})
		})
	}
}

func TestAHotKeyHoldsUpNoOtherKeyWithOneCPU(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for kind, slow := range slowOnes {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := slow(stage.Capacity(16), stage.Workers(2, 2))
				p, err := pipeline.New("test", s, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				othersGoOn(t, s, 4+3, func(int) {})
				stopHard(t, p)
			})
		})
	}
}

func TestAHotKeyHoldsUpNoOtherKeyWhilePoliciesAreSwapped(t *testing.T) {
	for kind, slow := range slowOnes {
		t.Run(kind, func(t *testing.T) { swapPoliciesUnderAHotKey(t, slow) })
	}
}

func swapPoliciesUnderAHotKey(t *testing.T, slow func(...stage.Option) *stage.Stage[item]) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := slow(stage.Capacity(16), stage.KeyCapacity(2), stage.Workers(2, 4))
		p, err := pipeline.New("test", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		laws := slices.DeleteFunc(policy.Names(), func(name string) bool { return name == "color" || name == "codel" || name == "rt90" })
		othersGoOn(t, s, 16, func(i int) {
			if i%5 == 0 {
				law, err := policy.ByName(laws[i/5%len(laws)])
				require.NoError(t, err)
				require.NoError(t, p.SetPolicy(law))
			}
		})
		require.NoError(t, p.SetPolicy(policy.Fixed{}))
		stopHard(t, p)
	})
}

// The first process is stopped hard while the hot key waits for a place, and the second one begins at the checkpoint.
func TestACheckpointPassesNoCommandOfAHotKeyThatWaitsForAPlace(t *testing.T) {
	const commands = 60
	var all []item
	for i := range commands {
		all = append(all, item{i % 3, i})
	}
	var mu sync.Mutex
	var handled []int
	var position int64
	for process := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := stage.Keyed("orders", keyOf, func(k int) behaviour.Behaviour[item] {
				return behaviour.Func[item](func(ctx context.Context, i item) behaviour.Outcome {
					if o := slowKey(k).HandleCommand(ctx, i); ctx.Err() != nil {
						return behaviour.Error(context.Cause(ctx))
					} else if mu.Lock(); o.Err() == nil {
						handled = append(handled, i.n)
					}
					mu.Unlock()
					return behaviour.OK(nil)
				})
			}, stage.Capacity(16), stage.KeyCapacity(2), stage.Workers(2, 2))
			src := source.Checkpoint(source.Slice(all), position, func(_ context.Context, at int64) error { position = at; return nil })
			p, err := pipeline.New("test", s, quiet, pipeline.Feed("orders", s, src))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			if process == 0 {
				time.Sleep(10500 * time.Millisecond)
				stopHard(t, p)
				require.Less(t, position, int64(commands))
				return
			}
			time.Sleep(time.Minute)
			require.NoError(t, p.Stop(t.Context()))
		})
	}
	slices.Sort(handled)
	require.Len(t, slices.Compact(handled), commands)
	require.EqualValues(t, commands, position)
}
