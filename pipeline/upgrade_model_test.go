package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// upgraded predicts which versions may handle a command of a stage with upgrades, and what its answer may be.
type upgraded struct {
	t        *testing.T
	r        *registry
	st       *stage.Stage[int]
	p        *pipeline.Pipeline
	kind     string
	one      bool // one instance, so the order is kept
	present  string
	former   map[string]<-chan struct{} // versions that were replaced; each channel is closed when the instances have been stopped
	next     int
	versions int
	asks     []ask
	paused   bool

	mu    sync.Mutex
	order []int // commands, as they were completed
}

// ask is a command that was submitted, and the versions that had been replaced before.
type ask struct {
	n      int
	dead   map[string]bool
	ticket *stage.Ticket
	late   bool // its context was cancelled just when it was accepted
}

// traits are the properties of versions.
var traits = []string{"good", "good", "good", "crashes", "exits", "errs"}

func (u *upgraded) do(trait string) func(ctx context.Context, b *being, n int) behaviour.Outcome {
	return func(ctx context.Context, b *being, n int) behaviour.Outcome {
		if n%7 == 3 {
			switch trait {
			case "crashes":
				panic("on purpose")
			case "exits":
				runtime.Goexit()
			case "errs":
				return behaviour.Error(errBad)
			}
		}
		if n%5 == 0 {
			runtime.Gosched()
		}
		u.mu.Lock()
		u.order = append(u.order, n)
		u.mu.Unlock()
		return answer(ctx, b, n)
	}
}

func (u *upgraded) fresh(trait string) (string, behaviour.Factory[int]) {
	u.versions++
	name := fmt.Sprintf("v%d", u.versions)
	make := u.r.factory
	switch u.kind {
	case "shared":
		make = u.r.next
	case "batches":
		make = u.r.herds
	}
	return name, make(name, u.do(trait))
}

// dead returns the versions that were replaced.
func (u *upgraded) dead() map[string]bool {
	dead := map[string]bool{}
	for version := range u.former {
		dead[version] = true
	}
	return dead
}

func (u *upgraded) submit(t *rapid.T) {
	for range rapid.IntRange(1, 60).Draw(t, "commands") {
		dead := u.dead()
		ticket, late, err := u.ask()
		if u.paused && errors.Is(err, context.Canceled) {
			return // a policy with a limit of commands in flight holds the others back
		}
		if errors.Is(err, stage.ErrPolicy) {
			return // so does one that discards commands while too many wait
		}
		require.NoError(t, err)
		u.asks = append(u.asks, ask{u.next, dead, ticket, late})
		u.next++
	}
}

// ask submits the next command. It does not wait for long while the stage is paused.
func (u *upgraded) ask() (ticket *stage.Ticket, late bool, err error) {
	if !u.paused {
		ticket, err = u.st.Ask(soon(u.t), u.next)
		return ticket, false, err
	}
	ctx, cancel := context.WithCancel(soon(u.t))
	alarm := time.AfterFunc(100*time.Millisecond, cancel)
	ticket, err = u.st.Ask(ctx, u.next)
	return ticket, !alarm.Stop(), err // the context travels with a command that is accepted
}

func (u *upgraded) upgrade(t *rapid.T) {
	name, factory := u.fresh(rapid.SampledFrom(traits).Draw(t, "trait"))
	replaced, err := u.st.Upgrade(soon(u.t), factory)
	require.NoError(t, err)
	u.former[u.present], u.present = replaced, name
	require.Equal(t, name, u.st.Snapshot().Version)
}

func (u *upgraded) collect(t *rapid.T) {
	if u.paused {
		return
	}
	for _, a := range u.asks {
		got, err := a.ticket.Wait(soon(u.t))
		if a.late && errors.Is(err, context.Canceled) {
			continue
		}
		if err == nil {
			require.Equal(t, a.n, got.(said).n)
			require.False(t, a.dead[got.(said).version], "%d was handled by %s, which had been replaced: %v", a.n, got.(said).version, a.dead)
			continue
		}
		if crash, ok := errors.AsType[*stage.CrashError](err); ok {
			require.False(t, a.dead[crash.Version], "%d crashed %s, which had been replaced: %v", a.n, crash.Version, a.dead)
			require.Equal(t, 1, crash.Attempts)
			continue
		}
		require.ErrorIs(t, err, errBad)
	}
	u.asks = nil
}

func (u *upgraded) actions(laws []func() error) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"submit":         u.submit,
		"submit again":   u.submit,
		"upgrade":        u.upgrade,
		"collect":        u.collect,
		"another policy": func(t *rapid.T) { require.NoError(t, rapid.SampledFrom(laws).Draw(t, "policy")()) },
		"pause": func(t *rapid.T) {
			require.NoError(t, u.p.Pause(u.st))
			u.paused = true
		},
		"resume": u.resume,
		"":       func(t *rapid.T) { require.True(t, u.p.Snapshot().Balanced()) },
	}
}

func (u *upgraded) resume(t *rapid.T) {
	require.NoError(t, u.p.Resume(u.st))
	u.paused = false
}

func TestUpgradesLoseNoCommandAndEveryInstanceIsStoppedOnce(t *testing.T) {
	for _, kind := range []string{"each", "shared", "batches"} {
		for _, instances := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", kind, instances), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					u := &upgraded{t: t, r: newRegistry(), kind: kind, one: instances == 1, former: map[string]<-chan struct{}{}}
					var first behaviour.Factory[int]
					u.present, first = u.fresh("good")
					opts := []stage.Option{stage.Workers(1, 4), stage.Instances(instances), stage.Batch(16)}
					u.st = stage.Each("s", first, opts...)
					if kind == "shared" {
						u.st = stage.New("s", first(), opts...)
					}
					u.p = start(t, u.st)
					var use []func() error
					for _, law := range laws(t) {
						use = append(use, func() error { return u.p.SetPolicy(law) })
					}
					defer func() {
						_ = u.p.Resume(u.st) // a run that rapid cuts short may have paused the stage, and Stop would wait
						_ = u.p.Stop(soon(t))
					}()
					for range 3 {
						rt.Repeat(u.actions(use))
					}
					u.resume(rt)
					u.collect(rt)
					for version, replaced := range u.former {
						await(t, replaced)
						require.Zero(rt, u.r.living(version), "%s was replaced", version)
					}
					require.NoError(rt, u.p.Stop(soon(t)))
					s := u.p.Snapshot()
					require.True(rt, s.Balanced())
					require.EqualValues(rt, u.next, s.Accepted)
					u.end(rt)
				})
			})
		}
	}
}

func (u *upgraded) end(t *rapid.T) {
	u.r.quit(t)
	if u.kind == "shared" {
		return
	}
	for version, n := range u.r.crowd {
		require.LessOrEqual(t, n, u.st.Snapshot().Workers.Instances, version)
	}
	if u.one && u.kind == "each" {
		for i := 1; i < len(u.order); i++ {
			require.Less(t, u.order[i-1], u.order[i], "order is kept")
		}
	}
}

// All stages of a line are upgraded repeatedly, to good and bad versions, while commands are submitted and policies are
// swapped.
func TestTheLawHoldsDuringUpgradesUnderLoad(t *testing.T) {
	r := newRegistry()
	var stages []*stage.Stage[int]
	var parts []pipeline.Part
	hand := func(to *stage.Stage[int], crashes int) func(ctx context.Context, b *being, n int) behaviour.Outcome {
		return func(_ context.Context, _ *being, n int) behaviour.Outcome {
			switch {
			case crashes > 0 && rand.IntN(crashes) == 0:
				panic("on purpose")
			case to == nil:
				return behaviour.OK(n)
			default:
				return behaviour.Forward(to, n)
			}
		}
	}
	var next *stage.Stage[int]
	nexts := map[*stage.Stage[int]]*stage.Stage[int]{}
	for i := range 3 {
		st := stage.Each(fmt.Sprintf("s%d", 3-i), r.factory("v1", hand(next, 0)), stage.Workers(1, 3), stage.Capacity(64))
		nexts[st], next = next, st
		stages, parts = append(stages, st), append(parts, st)
	}
	p := start(t, parts...)
	ctx, cancel := context.WithCancel(context.Background())
	var submitted atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if next.Submit(ctx, 1) == nil {
					submitted.Add(1)
				}
			}
		})
	}
	all := laws(t)
	for end, i := time.Now().Add(lasting(time.Second, 10*time.Second)), 0; time.Now().Before(end); i++ {
		st := stages[rand.IntN(len(stages))]
		crashes := max(rand.IntN(450)-150, 0)
		_, err := st.Upgrade(soon(t), r.factory(fmt.Sprintf("v%d", i+2), hand(nexts[st], crashes)))
		require.NoError(t, err)
		if i%8 == 0 {
			require.NoError(t, p.SetPolicy(all[rand.IntN(len(all))]))
		}
		require.True(t, p.Snapshot().Balanced())
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
	require.NoError(t, p.Stop(soon(t)))
	atRest(t, p)
	require.EqualValues(t, submitted.Load(), p.Snapshot().Accepted)
	r.quit(t)
}
