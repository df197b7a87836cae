package policy

import (
	"fmt"
	"maps"

	"github.com/golda-dev/golda/controller"
)

// memory is what a controller remembers of each stage, by the stage's name.
type memory[T any] map[string]*T

// of returns what is remembered of a stage, and of a new one nothing yet.
func (m memory[T]) of(stage string) *T {
	v := m[stage]
	if v == nil {
		v = new(T)
		m[stage] = v
	}
	return v
}

// forget drops the stages that are gone. A stage that comes back under its old
// name is a new one.
func (m memory[T]) forget(s *controller.Snapshot) {
	if len(m) <= len(s.Stages) {
		return
	}
	here := make(map[string]bool, len(s.Stages))
	for i := range s.Stages {
		here[s.Stages[i].Name] = true
	}
	maps.DeleteFunc(m, func(name string, _ *T) bool { return !here[name] })
}

func streak(n int, again bool) int {
	if !again {
		return 0
	}
	return n + 1
}

// restore brings a stage back between its bounds, and tells whether it had to.
func restore(st *controller.StageStats, d *controller.Decisions) bool {
	switch {
	case st.Workers < st.MinWorkers:
		d.Workers(st.ID, st.MinWorkers, fmt.Sprintf("workers %d < %d, the least", st.Workers, st.MinWorkers))
	case st.Workers > st.MaxWorkers:
		d.Workers(st.ID, st.MaxWorkers, fmt.Sprintf("workers %d > %d, the most", st.Workers, st.MaxWorkers))
	default:
		return false
	}
	return true
}

// why is the reason of a length against a threshold: "queue 120 > 100 for 3 samples".
func why(what string, length int, sign string, threshold, samples int) string {
	return fmt.Sprintf("%s %d %s %d for %s", what, length, sign, threshold, sampled(samples))
}

func sampled(n int) string {
	if n == 1 {
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", n)
}

func fault(policy string, broken bool, format string, args ...any) error {
	if !broken {
		return nil
	}
	return fmt.Errorf("policy: "+policy+": "+format, args...)
}
