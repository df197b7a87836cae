package steer

import (
	"maps"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/histogram"
)

// Times remembers which times of commands a controller saw last, and so
// computes the times since then. Each controller has its own Times. The zero
// Times is ready. It is not safe for concurrent use.
type Times struct {
	seen map[string]*times // by the name of the stage
}

// times are the totals of one stage that a Times has seen.
type times struct{ wait, work histogram.Histogram }

// Fill sets the Wait and the Work of a stage from their totals, and keeps
// clones of those for the next call.
func (t *Times) Fill(st *controller.StageStats, wait, work *histogram.Histogram) {
	if t.seen == nil {
		t.seen = map[string]*times{}
	}
	last := t.seen[st.Name]
	if last == nil {
		last = new(times)
		t.seen[st.Name] = last
	}
	st.Wait, st.Work = since(wait, &last.wait), since(work, &last.work)
}

// durations is the type of the fields that Fill sets.
type durations struct {
	Count            uint64
	Least, Mean, P90 time.Duration
}

// since summarizes the samples that were recorded since the last call, and
// updates last.
func since(total, last *histogram.Histogram) durations {
	h := total.Since(last)
	*last = total.Clone()
	return durations{Count: h.Count(), Least: h.Quantile(0), Mean: h.Mean(), P90: h.Quantile(0.9)}
}

// Forget drops the stages that are not in s.
func (t *Times) Forget(s *controller.Snapshot) {
	if len(t.seen) <= len(s.Stages) {
		return
	}
	here := make(map[string]bool, len(s.Stages))
	for i := range s.Stages {
		here[s.Stages[i].Name] = true
	}
	maps.DeleteFunc(t.seen, func(name string, _ *times) bool { return !here[name] })
}
