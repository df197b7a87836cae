package line

import (
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// Hold is what a command that was given out has of its line, from then on until
// it has ended or is in the line again, whichever workers handle it: its number
// in an ordered stage, or the lane of its key. The zero Hold is none.
type Hold struct {
	rank Rank
	lane *Lane
}

// Rank returns the rank with which the command returns.
func (h Hold) Rank() Rank { return h.rank }

func (h Hold) none() bool { return h == Hold{} }

// Part is a worker's part in the line of the stage where it is. The zero Part
// is ready; most lines need none. A command is known by its index in the batch.
type Part struct {
	// Only the worker touches these, or the line when the worker calls it.
	holds   []Hold
	ended   []Hold // of commands that have ended; their results may not have been handed over
	results []heldResult

	// These are guarded by the lock of the inbox.
	given  []Rank  // as holds, but the worker does not touch it
	lanes  []*Lane // that the worker holds
	permit Permit  // of the command whose handler has not begun
}

// Result is a command that must leave an ordered stage in its turn.
type Result struct {
	To       *behaviour.Inlet
	Envelope command.Envelope
}

// heldResult is a result with the hold of its command.
type heldResult struct {
	Result

	hold Hold
}

// PartOf returns the part of a worker whose batch was not given out by the
// inbox: a batch of one command.
func PartOf(h Hold) *Part { return &Part{holds: []Hold{h}} }

// Of returns the hold of a command; none if it was suspended and its run knows
// the hold.
func (p *Part) Of(i int32) Hold { return p.holds[i] }

// Set sets the hold of a command that was suspended.
func (p *Part) Set(i int32, h Hold) { p.holds[i] = h }

// End notes that a command makes no further results, unless it is tried again.
// An ordered line learns of it when the worker books its batch. A hold on a
// lane ends at the worker's next turn at which it has handed over all results.
func (p *Part) End(i int32) {
	if !p.holds[i].none() {
		p.ended = append(p.ended, p.holds[i])
	}
}

// Add adds a result of a command, and returns its envelope for the caller to
// fill.
func (p *Part) Add(i int32, to *behaviour.Inlet) *command.Envelope {
	p.results = append(p.results, heldResult{Result{To: to}, p.holds[i]})
	return &p.results[len(p.results)-1].Envelope
}

// Order says in which order the commands of the batch are now: at each index,
// the index where the command was.
func (p *Part) Order(were []int) {
	holds := make([]Hold, len(were))
	for i, at := range were {
		holds[i] = p.holds[at]
	}
	p.holds = holds
}

// Ranks returns the ranks of the last n commands of the batch, without
// suspended ones.
func (p *Part) Ranks(n int) []Rank {
	ranks := make([]Rank, 0, n)
	for _, h := range p.holds[len(p.holds)-n:] {
		if !h.none() {
			ranks = append(ranks, h.rank)
		}
	}
	return ranks
}

// EndBefore is End of the command before the last ones of the batch.
func (p *Part) EndBefore(last int) { p.End(p.before(last)) }

// Before returns the rank of the command before the last ones of the batch.
func (p *Part) Before(last int) Rank { return p.holds[p.before(last)].rank }

func (p *Part) before(last int) int32 { return int32(len(p.holds) - last - 1) }

// TakePermit moves the permit of the command in the batch to its handler, which
// begins.
func (p *Part) TakePermit() (permit Permit) {
	if p != nil {
		permit, p.permit = p.permit, permit
	}
	return permit
}

// clear sets the holds of a batch of n commands, which has none yet.
func (p *Part) clear(n int) {
	p.holds = slices.Grow(p.holds[:0], n)[:n]
	clear(p.holds)
}

// orNew returns a part, a new one for nil.
func (p *Part) orNew() *Part {
	if p == nil {
		return new(Part)
	}
	return p
}
