package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golda-dev/golda/pipeline"
)

// Report is the counts of one run of a plan, or of many.
type Report struct {
	Plans, Stages                                           int
	Asked, Accepted, Refused                                uint64
	Replied, Failed, Shed, DeadLettered                     uint64
	Crashes, Stuck, Retries, Restarts                       uint64
	Snapshots                                               int // balanced snapshots in motion
	GaveUp, StoppedHard                                     int
	Faults, Actions                                         map[string]uint64
	Lost, Doubled, Left, Deadlocks, Disordered, OtherBroken int
}

// Add adds another report.
func (r *Report) Add(o Report) {
	r.Plans += o.Plans
	r.Stages += o.Stages
	r.Asked += o.Asked
	r.Accepted += o.Accepted
	r.Refused += o.Refused
	r.Replied += o.Replied
	r.Failed += o.Failed
	r.Shed += o.Shed
	r.DeadLettered += o.DeadLettered
	r.Crashes += o.Crashes
	r.Stuck += o.Stuck
	r.Retries += o.Retries
	r.Restarts += o.Restarts
	r.Snapshots += o.Snapshots
	r.GaveUp += o.GaveUp
	r.StoppedHard += o.StoppedHard
	r.Lost += o.Lost
	r.Doubled += o.Doubled
	r.Left += o.Left
	r.Deadlocks += o.Deadlocks
	r.Disordered += o.Disordered
	r.OtherBroken += o.OtherBroken
	r.Faults = sum(r.Faults, o.Faults)
	r.Actions = sum(r.Actions, o.Actions)
}

// sum adds counts by name.
func sum(to, from map[string]uint64) map[string]uint64 {
	if to == nil {
		to = map[string]uint64{}
	}
	for k, n := range from {
		to[k] += n
	}
	return to
}

// absorb copies the counts of a snapshot.
func (r *Report) absorb(s pipeline.Snapshot) {
	r.Accepted, r.Replied, r.Failed, r.Shed, r.DeadLettered = s.Accepted, s.Replied, s.Failed, s.Shed, s.DeadLettered
	for _, st := range s.Stages {
		r.Crashes += st.Counts.Crashes
		r.Stuck += st.Counts.Stuck
		r.Retries += st.Counts.Retries
		r.Restarts += st.Counts.Restarts
		r.Refused += st.Counts.Rejected
	}
}

// judge counts the broken promises.
func (r *Report) judge(v VerdictError) {
	for _, b := range v {
		switch b.Promise {
		case OneEnd:
			if strings.Contains(b.Detail, "lost") {
				r.Lost++
			} else {
				r.Doubled++
			}
		case Progress:
			r.Deadlocks++
		case Goroutines:
			r.Left++
		case Order:
			r.Disordered++
		default:
			r.OtherBroken++
		}
	}
}

// String returns the numbers in five lines.
func (r *Report) String() string {
	return fmt.Sprintf(`%d plans on as many graphs, %d stages; %d balanced snapshots in motion; gave up %d, stopped hard %d
commands: %d submitted; accepted and emitted %d = replied %d + failed %d + shed %d + dead-lettered %d; refused %d
faults: %s; crashes %d, stuck %d, retries %d, workers restarted %d
actions: %s
broken: lost %d, duplicated %d, out of order %d, deadlocks %d, goroutines left %d, other %d`,
		r.Plans, r.Stages, r.Snapshots, r.GaveUp, r.StoppedHard,
		r.Asked, r.Accepted, r.Replied, r.Failed, r.Shed, r.DeadLettered, r.Refused,
		counts(r.Faults), r.Crashes, r.Stuck, r.Retries, r.Restarts, counts(r.Actions),
		r.Lost, r.Doubled, r.Disordered, r.Deadlocks, r.Left, r.OtherBroken)
}

func counts(by map[string]uint64) string {
	list := make([]string, 0, len(by))
	for _, k := range slices.Sorted(maps.Keys(by)) {
		list = append(list, fmt.Sprintf("%s %d", k, by[k]))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
