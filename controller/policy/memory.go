package policy

import (
	"fmt"
	"maps"

	"github.com/golda-dev/golda/controller"
)

// memory is a controller's memory of each stage or unit, by its name.
type memory[T any] map[string]*T

// of returns the entry of a name, and makes an empty one for a new name.
func (m memory[T]) of(name string) *T {
	v := m[name]
	if v == nil {
		v = new(T)
		m[name] = v
	}
	return v
}

// forget drops the stages that are gone. A stage that returns under its old
// name counts as new.
func (m memory[T]) forget(s *controller.Snapshot) {
	m.keep(len(s.Stages), func(i int) string { return s.Stages[i].Name })
}

// forgetUnits drops the units that are gone, likewise.
func (m memory[T]) forgetUnits(us []unit) {
	m.keep(len(us), func(i int) string { return us[i].name })
}

// keep drops all names except the given n. All of those n are in the memory by
// now, so if it holds no more than n there is nothing to drop.
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

// why returns the reason for crossing a threshold, such as "queue 120 > 100 for
// 3 samples".
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
