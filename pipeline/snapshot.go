package pipeline

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage"
)

// Snapshot is the state of a pipeline at one instant: all its accounts were
// read together.
type Snapshot struct {
	Pipeline string
	Policy   string
	At       time.Time

	Accepted     uint64 // submitted from outside, and emitted by handlers
	Replied      uint64 // ended with a result
	Failed       uint64 // ended with an error
	Shed         uint64 // dropped for want of room
	DeadLettered uint64 // ended without an answer
	InFlight     uint64 // not ended yet

	Stages []stage.Snapshot // in the order in which they were given to New
}

// Balanced reports whether the law holds, for the pipeline and for each stage.
func (s Snapshot) Balanced() bool {
	for _, st := range s.Stages {
		if !st.Balanced() {
			return false
		}
	}
	return s.Accepted == s.Replied+s.Failed+s.Shed+s.DeadLettered+s.InFlight
}

// Law writes the law out, with its numbers.
func (s Snapshot) Law() string {
	return fmt.Sprintf("accepted %d = replied %d + failed %d + shed %d + dead-lettered %d + in flight %d",
		s.Accepted, s.Replied, s.Failed, s.Shed, s.DeadLettered, s.InFlight)
}

// Snapshot reads all accounts at one instant. It may be called at any time.
func (p *Pipeline) Snapshot() Snapshot {
	sheets := room.Snapshot(p.rooms)
	s := Snapshot{Pipeline: p.name, Policy: p.set.policy.Name(), At: time.Now()}
	for i, c := range p.stages {
		st := c.Snapshot(sheets[i])
		s.Accepted += st.Submitted + st.Emitted
		s.Replied += st.OK
		s.Failed += st.Errors
		s.Shed += st.Shed
		s.DeadLettered += st.DeadLettered
		s.Stages = append(s.Stages, st)
	}
	s.InFlight = inFlight(sheets)
	return s
}

// inFlight counts what has not ended. What has left one room and not yet come
// to the next, or the other way round for a moment, is the difference of what
// was sent and what was received.
func inFlight(sheets []room.Sheet) uint64 {
	var n int64
	for _, s := range sheets {
		n += int64(s.Queued + s.InHand + s.Delayed)
		n += int64(s.Forwarded+s.Emitted) - int64(s.Received)
	}
	return uint64(n)
}

// rested reports whether nothing is anywhere.
func rested(sheets []room.Sheet) bool {
	for _, s := range sheets {
		if s.Queued+s.InHand+s.Delayed > 0 {
			return false
		}
	}
	return inFlight(sheets) == 0
}
