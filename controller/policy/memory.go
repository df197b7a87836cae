package policy

import (
	"fmt"
	"maps"

	"github.com/golda-dev/golda/controller"
)

// memory is what a controller remembers of each stage or unit, by its name.
type memory[T any] map[string]*T

// of returns what is remembered of a name, and of a new one nothing yet.
func (m memory[T]) of(name string) *T {
	v := m[name]
	if v == nil {
		v = new(T)
		m[name] = v
	}
	return v
}

// forget drops the stages that are gone. A stage that comes back under its old
// name is a new one.
func (m memory[T]) forget(s *controller.Snapshot) {
	m.keep(len(s.Stages), func(i int) string { return s.Stages[i].Name })
}

// forgetUnits drops the units that are gone, likewise.
func (m memory[T]) forgetUnits(us []unit) {
	m.keep(len(us), func(i int) string { return us[i].name })
}

// keep drops all but n names. All of those n are remembered by now, so if there
// are no more than n there is nothing to drop.
func (m memory[T]) keep(n int, name func(i int) string) {
	if len(m) <= n {
		return
	}
	here := make(map[string]bool, n)
	for i := range n {
		here[name(i)] = true
	}
	maps.DeleteFunc(m, func(name string, _ *T) bool { return !here[name] })
}

func streak(n int, again bool) int {
	if !again {
		return 0
	}
	return n + 1
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
