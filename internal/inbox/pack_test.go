package inbox

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// packs is what a model knows of packs: for each command in a pack, how many commands of that pack are still to come, itself
// included.
type packs map[int]int

func (p packs) add(e command.Envelope) {
	if e.Pack() > 0 {
		p[e.Load.(int)] = e.Pack()
	}
}

// retried marks a command that crashed and is tried again. It is a pack of its own, but the model does not know where a
// discipline keeps it.
const retried = -1

// retry notes a command that crashed and is to be tried again.
func (p packs) retry(e command.Envelope) {
	if e.Pack() > 0 {
		p[e.Load.(int)] = retried
	}
}

// checkBatch checks that a batch is of one pack, or that no command of it is in a pack.
func (p packs) checkBatch(t *rapid.T, batch []command.Envelope, knows bool) {
	first := p[batch[0].Load.(int)]
	if first == retried {
		first = 1
		p[batch[0].Load.(int)] = first
	}
	if first > 0 && len(batch) > first {
		t.Fatalf("a batch of %d, and %d are left of the pack", len(batch), first)
	}
	for i, e := range batch {
		is, want := p[e.Load.(int)], max(first-i, 0)
		if is == retried && !knows {
			is = want
		}
		if is != want {
			t.Fatalf("%v is at place %d of a batch that begins with a pack of %d, and %d of its own pack are still to come", e.Load, i, first, is)
		}
		delete(p, e.Load.(int))
	}
}

// sizes returns the sizes of the packs that a narrowed batch was cut into.
func sizes(batch []command.Envelope) (sizes []int) {
	for i := 0; i < len(batch); i += batch[i].Pack() {
		sizes = append(sizes, batch[i].Pack())
	}
	return sizes
}

func TestABatchThatCrashedIsCutIntoPacksAndAPackIntoSingleCommands(t *testing.T) {
	for n, want := range map[int][]int{
		2: {1, 1}, 3: {2, 1}, 4: {2, 2}, 5: {3, 2}, 9: {3, 3, 3}, 10: {4, 4, 2},
		64: {8, 8, 8, 8, 8, 8, 8, 8},
	} {
		batch := make([]command.Envelope, n)
		Narrow(batch)
		require.Equal(t, want, sizes(batch), "of %d", n)
		pack := batch[:batch[0].Pack()]
		if len(pack) > 1 {
			Narrow(pack)
			for _, e := range pack {
				require.Equal(t, 1, e.Pack(), "of a pack of %d", len(pack))
			}
		}
	}
}

func TestPacksAreSmallerThanTheBatchAndAtMostItsSquareRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := make([]command.Envelope, rapid.IntRange(2, 5000).Draw(t, "n"))
		Narrow(batch)
		root := int(math.Ceil(math.Sqrt(float64(len(batch)))))
		sum := 0
		for _, size := range sizes(batch) {
			sum += size
			if size >= len(batch) || size > root {
				t.Fatalf("a pack of %d from a batch of %d", size, len(batch))
			}
		}
		if sum != len(batch) {
			t.Fatalf("packs of %d in all from a batch of %d", sum, len(batch))
		}
	})
}

// A culprit is found in smaller and smaller packs. The crashes of these packs do not add to the streak, the crash of the
// single command does.
func TestSearchingForACulpritIsNotAStreakOfCrashes(t *testing.T) {
	tb, w := newOrdered(t, nil, func(c *Config) { c.Batch = 9 })
	crash := func(culprit *command.Envelope) {
		batch := append([]command.Envelope(nil), w.Batch[:w.n]...)
		if culprit == nil {
			Narrow(batch)
		} else {
			batch = batch[1:]
		}
		tb.inboxes[0].Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: batch, Err: ErrStopped})
		tb.inboxes[0].Yield(&w.Member)
		w = tb.addOwnWorker(tb.inboxes[0])
		tb.inboxes[0].state.pace.limit = 9
	}
	tb.inboxes[0].state.pace.limit = 9
	tb.submitN(0, 9)
	for _, n := range []int{9, 3} {
		_, cmds := w.turn(false)
		require.Len(t, cmds, n)
		crash(nil)
		require.Zero(t, tb.inboxes[0].Workers().Streak())
	}
	_, cmds := w.turn(false)
	require.Len(t, cmds, 1)
	w.Batch[0].Failed()
	crash(&w.Batch[0])
	require.Equal(t, 1, tb.inboxes[0].Workers().Streak())
	require.EqualValues(t, 3, Snapshot([]*Inbox{tb.inboxes[0]})[0].Counts.Crashes)
	require.EqualValues(t, 8, tb.inboxes[0].state.queue.packed, "the two of the small pack, and two packs of three")
}

// If a retry kept its pack of three, two unrelated commands would become part of the pack.
func TestARetryLeavesItsPack(t *testing.T) {
	tests := map[string]struct {
		again func(in *Inbox, w *testWorker, e command.Envelope)
		pack  int
	}{
		"after an error": {func(in *Inbox, w *testWorker, e command.Envelope) {
			require.True(t, in.Book(&w.Member, &w.tally, &Retried{Command: e}))
			w.tally.OK = w.n - 1
		}, 0},
		"after a crash": {func(in *Inbox, w *testWorker, e command.Envelope) {
			rest := slices.Clone(w.Batch[1:w.n])
			require.True(t, in.Book(&w.Member, &w.tally, &Crashed{Culprit: &e, Rest: rest, Retry: true, Err: ErrStopped}))
		}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 1, func(c *Config) { c.Batch = 4 })
			in := tb.inboxes[0]
			in.state.cfg.Retry, in.state.pace.limit = Retry{Attempts: 2}, 4
			w := tb.addOwnWorker(in)
			tb.submitN(0, 3)
			_, cmds := w.turn(false)
			require.Len(t, cmds, 3)
			e := w.Batch[0]
			e.SetPack(3)
			e.Failed()
			test.again(in, w, e)
			tried := 0
			in.state.queue.line.Count(func(e *command.Envelope) bool {
				if e.Tries() > 0 {
					tried++
					require.Equal(t, test.pack, e.Pack())
				}
				return false
			})
			require.Equal(t, 1, tried)
		})
	}
}
