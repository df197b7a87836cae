package steer

import (
	"maps"

	"github.com/golda-dev/golda/controller"
)

// Windows remembers the totals that a controller saw last, and so computes the
// events since then. Each controller has its own Windows. No counter is reset,
// so two controllers do not disturb each other; in LEDA, reading the statistics
// cleared them for all.
//
// The zero Windows is ready: its first window reaches back to the start of the
// pipeline. Windows is not safe for concurrent use.
type Windows struct {
	seen map[string]*window // pointers, since a growing map allocates space for twice as many entries
}

// window is the last state of one stage that a Windows has seen.
type window struct {
	total controller.Counters
	bound bool
}

// Fill sets the Window of each stage in s from its Total, and remembers the
// totals for the next call. It sets Bound, too. Workers that are blocked by
// stages ahead resume when half of the queue there is free, and fill it again
// at once; so a stage stays bound until a window shows no blocked worker and no
// queue ahead is half full. Stages are identified by name: the window of a new
// stage is its whole total, and a stage that is gone is forgotten. A stage for
// which nothing was ever counted takes no memory.
func (w *Windows) Fill(s *controller.Snapshot) {
	if w.seen == nil {
		w.seen = map[string]*window{}
	}
	active := 0
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Window = st.Total
		last := w.seen[st.Name]
		if last != nil {
			st.Window = st.Total.Sub(last.total)
		}
		st.Bound = st.Stalled || blocked(st.Window) || last != nil && last.bound && busyAhead(s, st)
		if st.Total == (controller.Counters{}) {
			delete(w.seen, st.Name)
			continue
		}
		if last == nil {
			last = new(window)
			w.seen[st.Name] = last
		}
		last.total, last.bound = st.Total, st.Bound
		active++
	}
	if len(w.seen) > active {
		w.forget(s)
	}
}

// busyAhead reports whether the queue of a stage ahead is half full or more.
func busyAhead(s *controller.Snapshot, st *controller.StageStats) bool {
	for _, id := range st.Next {
		if id < 0 || int(id) >= len(s.Stages) {
			continue
		}
		if next := &s.Stages[id]; next.QueueCap > 0 && next.QueueLen >= next.QueueCap-next.QueueCap/2 {
			return true
		}
	}
	return false
}

// forget drops the stages that are not in s, so that a pipeline that adds and
// removes stages does not leak memory.
func (w *Windows) forget(s *controller.Snapshot) {
	here := make(map[string]bool, len(s.Stages))
	for i := range s.Stages {
		here[s.Stages[i].Name] = true
	}
	maps.DeleteFunc(w.seen, func(name string, _ *window) bool { return !here[name] })
}

// blocked reports whether workers waited for a free slot in a stage ahead for a
// tenth or more of the time in which they had commands.
func blocked(c controller.Counters) bool { return c.Blocked > 0 && c.Blocked >= c.Busy/busyForBlocked }

// busyForBlocked is the ratio of busy to blocked time above which workers do
// not count as blocked.
const busyForBlocked = 9
