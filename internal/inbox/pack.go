package inbox

import (
	"math"

	"github.com/golda-dev/golda/internal/command"
)

// Narrow cuts a batch that crashed, and whose culprit is not known, into packs:
// about √n packs of about √n commands. A batch that was a pack already is cut
// into single commands. So a culprit among n is found with three crashes, its
// neighbours are handled three times at most, and the innocent rest is soon
// handled in batches again. To halve the batch again and again would cost a
// crash for each halving, and the neighbours as many tries. To handle all
// commands one by one at once would lose the benefit of batching: a batch of
// 256 with one culprit takes 33 calls in packs, and 257 one by one.
func Narrow(batch []command.Envelope) {
	size := 1
	if n := len(batch); batch[0].Pack() == 0 && n > 2 {
		size = min(int(math.Ceil(math.Sqrt(float64(n)))), command.MaxPack)
	}
	for i := range batch {
		batch[i].SetPack(min(size-i%size, len(batch)-i))
	}
}

// countPacked counts packed commands that were queued.
func (q *waiting) countPacked(es []command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			q.packed++
		}
	}
}

// unpack counts packed commands that have left the queue.
func (q *waiting) unpack(es ...command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			q.packed--
		}
	}
}

// apart cuts a batch of n commands to the pack that comes first, or before a
// pack that comes later. A discipline that does not know its later commands yet
// may put a command that is tried again among others; packs that were given
// back are known.
func (q *waiting) apart(n int) int {
	if first := q.line.At(0); first.Pack() > 0 {
		return min(n, first.Pack())
	}
	for i := 1; i < n; i++ {
		e := q.line.At(i)
		if e == nil {
			break
		}
		if e.Pack() > 0 {
			return i
		}
	}
	return n
}
