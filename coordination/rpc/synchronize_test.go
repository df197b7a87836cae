package rpc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// resources are the processes of figures 19 to 21: each is on or off. What happens is written to a log in the order in which it happens.
type resources struct {
	mu  sync.Mutex
	log []string // names of those that were turned on
	on  map[string]bool
	max int

	of []rpc.Address
}

// spawnResources starts resources, in turn on the nodes.
func spawnResources(t testing.TB, count int, nodes ...*rpc.Node) *resources {
	t.Helper()
	rs := &resources{on: map[string]bool{}}
	for i := range count {
		name := "Res_" + string(rune('A'+i))
		rs.of = append(rs.of, spawn(t, nodes[i%len(nodes)], name, rs.resource(name)))
	}
	return rs
}

// resource is the init of a resource.
func (rs *resources) resource(name string) func(p *rpc.Process) {
	return func(p *rpc.Process) {
		on := false
		rpc.Func(p, "turn_on", func(coroutine.Context, none) (none, error) {
			on = true
			rs.turned(name, true)
			return none{}, nil
		})
		rpc.Func(p, "turn_off", func(c coroutine.Context, _ none) (none, error) {
			on = false
			_ = coroutine.Yield(c)
			rs.turned(name, false)
			return none{}, nil
		})
		p.Guard("turn_on", func(func(string) guard.Counters) bool { return !on })
		p.Guard("turn_off", func(func(string) guard.Counters) bool { return on })
	}
}

func (rs *resources) turned(name string, on bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !on {
		delete(rs.on, name)
		return
	}
	rs.on[name] = true
	rs.max = max(rs.max, len(rs.on))
	rs.log = append(rs.log, name)
}

func (rs *resources) members() (all []synchronizer.Member) {
	for _, a := range rs.of {
		all = append(all, a)
	}
	return all
}

// oneAtATime is figure 19: by counters.
func oneAtATime(of []synchronizer.Member) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		for _, r := range of {
			s.Constrain(r, "turn_on", func(guard.Request) bool {
				on := 0
				for _, r := range of {
					on += s.Count(r, "turn_on").Accepted - s.Count(r, "turn_off").Completed
				}
				return on == 0
			})
		}
	}
}

// oncePerRound is figure 20.
func oncePerRound(of []synchronizer.Member) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		var events []synchronizer.Event
		for _, r := range of {
			events = append(events, synchronizer.Event{Of: r, Method: "turn_on"})
		}
		s.OncePerRound(events...)
	}
}

// switchAll has one client for each resource turn it on and off.
func (rs *resources) switchAll(t testing.TB, from *rpc.Node, times int) {
	t.Helper()
	var wg sync.WaitGroup
	for _, r := range rs.of {
		r = from.Remote(r.Node(), r.Process())
		wg.Go(func() {
			c := coroutine.Blocking(t.Context())
			for range times {
				_, err := rpc.At[none, none](r, "turn_on").Call(c, none{})
				assert.NoError(t, err)
				_, err = rpc.At[none, none](r, "turn_off").Call(c, none{})
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
}

// TestS002_9_Composition is figures 19 to 21.
func TestS002_9_Composition(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			rs := spawnResources(t, 5, n, m)
			must(n.Synchronize(t.Context(), "Sync_A", oneAtATime(rs.members())))
			must(m.Synchronize(t.Context(), "Sync_B", oncePerRound(rs.members())))
			const times = 6
			rs.switchAll(t, n, times)
			assert.Equal(t, 1, rs.max)
			require.Len(t, rs.log, 5*times)
			for round := range slices.Chunk(rs.log, 5) {
				slices.Sort(round)
				assert.Len(t, slices.Compact(round), 5, fmt.Sprint(rs.log))
			}
		})
	}
}

// TestAtMostHoldsForRequestsOfAProcessThatOverlap has each process serve several requests at once: a request is decided while another one of
// its process ends.
func TestAtMostHoldsForRequestsOfAProcessThatOverlap(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var running, tooMany atomic.Int32
			var of []synchronizer.Event
			for i := range 3 {
				at := []*rpc.Node{n, m}[i%2]
				a := spawn(t, at, fmt.Sprint("P", i), func(p *rpc.Process) {
					rpc.Func(p, "use", func(c coroutine.Context, us int) (none, error) {
						if running.Add(1) > 2 {
							tooMany.Add(1)
						}
						defer running.Add(-1)
						return none{}, coroutine.Sleep(c, time.Duration(us)*time.Microsecond)
					})
				})
				of = append(of, synchronizer.Event{Of: n.Remote(at.Name(), a.Process()), Method: "use"})
			}
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.AtMost(2, of...) }))
			var clients sync.WaitGroup
			for i := range 12 {
				clients.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), 0))
					for range 60 {
						_, err := rpc.At[int, none](of[i%3].Of.(rpc.Address), "use").Call(blocking(t), rnd.IntN(50))
						assert.NoError(t, err)
					}
				})
			}
			clients.Wait()
			assert.Zero(t, tooMany.Load(), "two may run at once")
		})
	}
}
