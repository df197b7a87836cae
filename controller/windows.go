package controller

import "maps"

// Windows remembers the totals that a controller saw last and so can tell what
// was counted since. Each controller has its own; nothing is reset, so two
// controllers do not disturb each other, as they did in LEDA, where reading the
// statistics cleared them for all.
//
// The zero Windows is ready: its first window reaches back to the start of the
// pipeline. Windows is not safe for concurrent use.
type Windows struct {
	seen map[string]*Counters // pointers, since a map that grows has room for twice as many
}

// Fill sets the Window of each stage in s from its Total, and remembers the
// totals for the next time. Stages are known by name: one that is new has its
// whole total as window, one that is gone is forgotten. Those to which nothing has ever
// happened take no room.
func (w *Windows) Fill(s *Snapshot) {
	if w.seen == nil {
		w.seen = map[string]*Counters{}
	}
	active := 0
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Window = st.Total
		last := w.seen[st.Name]
		if last != nil {
			st.Window = st.Total.Sub(*last)
		}
		if st.Total == (Counters{}) {
			delete(w.seen, st.Name)
			continue
		}
		if last == nil {
			last = new(Counters)
			w.seen[st.Name] = last
		}
		*last = st.Total
		active++
	}
	if len(w.seen) > active {
		w.forget(s)
	}
}

// forget drops the stages that are not in s, so that a pipeline whose stages
// come and go does not fill the memory.
func (w *Windows) forget(s *Snapshot) {
	here := make(map[string]bool, len(s.Stages))
	for i := range s.Stages {
		here[s.Stages[i].Name] = true
	}
	maps.DeleteFunc(w.seen, func(name string, _ *Counters) bool { return !here[name] })
}
