package nats_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// node is a command of a tree: each node above the leaves emits its children. It is about as large as an address.
type node struct {
	Number int // children of n are from fan·n+1 to fan·n+fan
	Leaf   bool
	Text   string
}

// tree is a tree of commands.
type tree struct{ fan, depth int }

// size returns how many nodes there are, and above how many of them are no leaves.
func (t tree) size() (all, inner int) {
	for level, n := 0, 1; level <= t.depth; level, n = level+1, n*t.fan {
		inner, all = all, all+n
	}
	return all, inner
}

func (t tree) node(number int) node {
	_, inner := t.size()
	return node{number, number >= inner, fmt.Sprintf("https://example.com/%s/%d", strings.Repeat("a", 80), number)}
}

// children emits the children of a node.
func (t tree) children(n node, emit func(node) error) error {
	if n.Leaf {
		return nil
	}
	for k := range t.fan {
		if err := emit(t.node(t.fan*n.Number + 1 + k)); err != nil {
			return err
		}
	}
	return nil
}

// visits counts how often each node was handled.
type visits []atomic.Int32

func (v visits) once(t testing.TB) {
	t.Helper()
	for number := range v {
		require.EqualValues(t, 1, v[number].Load(), "node %d", number)
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// grow runs a loop over a tree. Close has the results of the stage lead back to it. It returns how much memory the loop took when all nodes
// were there and the leaves were not done; that may be less than nothing, if tests before left something behind that is gone now.
func (t tree) grow(tb testing.TB, isThere func(nodes int) bool, closed func(walk *stage.Flow[node, node]) []pipeline.Part) int64 {
	tb.Helper()
	all, _ := t.size()
	seen := make(visits, all)
	gate := make(chan struct{})
	var emitted atomic.Int64
	emitted.Add(1)
	walk := stage.FlatMap("walk", func(_ context.Context, n node, emit func(node) error) error {
		seen[n.Number].Add(1)
		if n.Leaf {
			<-gate
		}
		return t.children(n, func(n node) error {
			emitted.Add(1)
			return emit(n)
		})
	}, stage.Workers(1, 1), stage.Batch(1)) // so no leaf holds up another node
	before := heap()
	p, err := pipeline.New("tree", append(closed(walk), quiet)...)
	require.NoError(tb, err)
	ran := make(chan error, 1)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	go func() { ran <- p.Run(ctx) }()
	eventually(tb, "all nodes are there", func() bool { return emitted.Load() == int64(all) && isThere(all) })
	used := heap() - before
	close(gate)
	require.NoError(tb, <-ran)
	require.True(tb, p.Ending().Exhausted)
	require.True(tb, p.Snapshot().Balanced())
	seen.once(tb)
	return used
}

// The commands are many, so that the memory that the server and the pipeline need for any number is small beside theirs: that takes some ten seconds.
func TestALoopThroughAnInletTakesBoundedMemory(t *testing.T) {
	lasts(t)
	big := tree{fan: 67, depth: 3} // 305,320 nodes
	if race {
		big.fan = 20
	}
	all, _ := big.size()
	inMemory := big.grow(t, func(int) bool { return true }, func(walk *stage.Flow[node, node]) []pipeline.Part {
		return []pipeline.Part{walk.To(walk), pipeline.Feed("root", walk, source.Slice([]node{big.node(0)}))}
	})
	frontier := inlet(t, embed(t, t.TempDir(), nats.Store{}), "frontier", nats.Options[node]{UntilEmpty: true})
	require.NoError(t, frontier.Publish(t.Context(), "", big.node(0)))
	before, durable := heap(), int64(math.MaxInt64)
	there := func(n int) bool {
		if frontier.Counts().Published != uint64(n) {
			return false
		}
		if race {
			return true
		}
		// The server keeps blocks that it has written or read in memory for some seconds, and reads more at any time: the least counts.
		durable = min(durable, heap()-before)
		return durable < inMemory/2
	}
	big.grow(t, there, func(walk *stage.Flow[node, node]) []pipeline.Part {
		return []pipeline.Part{walk.To(frontier.Publisher("frontier", nil)), pipeline.Feed("frontier", walk, frontier.Feed)}
	})
	if !race { // the detector has a heap of its own
		t.Logf("%d nodes: %d MB in memory, %d MB through the inlet", all, inMemory>>20, durable>>20)
		require.Less(t, durable, inMemory/2)
	}
	require.Equal(t, nats.Status{Published: uint64(all)}, status(t, frontier))
	require.Equal(t, nats.Counts{Published: uint64(all), Delivered: uint64(all), Acknowledged: uint64(all)}, frontier.Counts())
}

// A chain has one message at any time, and the two processes that share it see each other's only in the server.
func TestALoopThatTwoInletsShareEndsWhenAllOfItHasEnded(t *testing.T) {
	t.Parallel()
	const n = 4000
	conn := embed(t, t.TempDir(), nats.Store{})
	var done atomic.Int64
	var both sync.WaitGroup
	inlets := []*nats.Inlet[int]{}
	for range 2 {
		inlets = append(inlets, inlet(t, conn, "chain", nats.Options[int]{UntilEmpty: true, MaxInFlight: 1}))
	}
	require.NoError(t, inlets[0].Publish(t.Context(), "", 1))
	for _, i := range inlets {
		both.Go(func() {
			step := stage.FlatMap("step", func(_ context.Context, k int, emit func(int) error) error {
				done.Add(1)
				if k == n {
					return nil
				}
				return emit(k + 1)
			})
			run(t, i, step, step.To(i.Publisher("publish", nil)))
			assert.EqualValues(t, n, done.Load())
		})
	}
	both.Wait()
	require.Equal(t, nats.Status{Published: n}, status(t, inlets[0]))
}

// walkIn returns a stage that emits the children of the nodes of a tree of numbers, and calls note with each.
func walkIn(tr tree, note func(number int)) *stage.Flow[int, int] {
	return stage.FlatMap("walk", func(_ context.Context, number int, emit func(int) error) error {
		note(number)
		return tr.children(tr.node(number), func(child node) error { return emit(child.Number) })
	})
}

func TestAFullStreamInALoopIsOverloadUntilMessagesHaveEnded(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true, MaxMessages: 3})
	require.NoError(t, numbers.Publish(t.Context(), "0", 0))
	tr := tree{fan: 5, depth: 1} // the root and two of its five children are in the stream at once
	var handled tally
	walk := walkIn(tr, func(number int) {
		handled.add(number)
		for number > 0 && numbers.Counts().Refused == 0 { // the first children wait until there is no place for another one
			time.Sleep(time.Millisecond)
		}
	})
	run(t, numbers, walk, walk.To(numbers.Publisher("publish", strconv.Itoa)))
	require.Equal(t, 6, handled.len())
	require.Greater(t, handled.of[0], 1, "the root was delivered again")
	for child := 1; child <= 5; child++ {
		require.Equal(t, 1, handled.of[child])
	}
	require.Equal(t, nats.Status{Published: 6}, status(t, numbers))
	require.Positive(t, numbers.Counts().Refused)
}

func TestALoopThatAFullStreamCannotHoldEndsInDeadLetters(t *testing.T) {
	t.Parallel()
	o := nats.Options[int]{UntilEmpty: true, MaxMessages: 1, Retry: stage.RetryPolicy{Attempts: 2}}
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", o)
	require.NoError(t, numbers.Publish(t.Context(), "", 0))
	tr := tree{fan: 2, depth: 3}
	var handled tally
	walk := walkIn(tr, func(number int) { handled.add(number) })
	run(t, numbers, walk, walk.To(numbers.Publisher("publish", nil)))
	require.EqualValues(t, 1, status(t, numbers).DeadLettered)

	o.MaxMessages = 0 // now there is room
	numbers = inlet(t, conn, "numbers", o)
	for letter, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Contains(t, letter.Err, "stage \"publish\": nats: inlet \"numbers\": full: ")
		require.NoError(t, numbers.Retry(t.Context(), letter))
	}
	walk = walkIn(tr, func(number int) { handled.add(number) })
	run(t, numbers, walk, walk.To(numbers.Publisher("publish", nil)))
	require.Equal(t, 15, handled.len())
}
