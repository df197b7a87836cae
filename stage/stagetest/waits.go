package stagetest

import (
	"strings"

	"github.com/golda-dev/golda/internal/stall"
	"github.com/golda-dev/golda/stage"
)

// waits reports which handlers wait for which stages, in one line for each
// place in the code where they wait, and whether they wait in a circle.
func waits(handlers []stage.Stuck) string {
	if len(handlers) == 0 {
		return "  no handler runs"
	}
	lines := stall.Lines(handlers)
	if c := circle(handlers); c != nil {
		lines = append(lines, "they wait in a circle: "+strings.Join(c, " → "))
	}
	return "  " + strings.Join(lines, "\n  ")
}

// circle is [stall.Circle].
func circle(handlers []stage.Stuck) []string { return stall.Circle(handlers) }
