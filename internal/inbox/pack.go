package inbox

import (
	"math"

	"github.com/golda-dev/golda/internal/command"
)

// Narrow cuts a batch that crashed, whose culprit is not known, into packs: about √n of
// about √n commands, and one that was a pack already into single commands. So a
// culprit among n is found with three crashes, its neighbours are handled three times
// at most, and the innocent rest is soon handled in batches again. To halve the batch
// again and again would cost a crash for each halving, and the neighbours as many tries;
// to go on one by one at once would cost the whole batch what a batch is for.
func Narrow(batch []command.Envelope) {
	size := 1
	if n := len(batch); batch[0].Pack() == 0 && n > 2 {
		size = min(int(math.Ceil(math.Sqrt(float64(n)))), command.MaxPack)
	}
	for i := range batch {
		batch[i].SetPack(min(size-i%size, len(batch)-i))
	}
}

// pack notes that commands have been queued, packs among them perhaps.
func (in *Inbox) pack(es []command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			in.packed++
		}
	}
}

// unpack notes that commands have left the queue.
func (in *Inbox) unpack(es []command.Envelope) {
	for i := range es {
		if es[i].Pack() > 0 {
			in.packed--
		}
	}
}

// apart cuts a batch of n commands to the pack that comes first, or before one that
// comes later. A discipline that does not know yet what comes later may let a
// command that is tried again come among others; packs that were given back are known.
func (in *Inbox) apart(n int) int {
	if first := in.queue.at(0); first.Pack() > 0 {
		return min(n, first.Pack())
	}
	for i := 1; i < n; i++ {
		e := in.queue.at(i)
		if e == nil {
			break
		}
		if e.Pack() > 0 {
			return i
		}
	}
	return n
}
