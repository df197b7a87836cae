package stall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/engine"
)

// Lines says which handlers wait for which stages, in one line for each place
// in the code where they wait.
func Lines(handlers []engine.Stuck) (lines []string) {
	type place struct {
		stage, at, waits string
		suspended        bool
		carries          bool // a worker that runs no handler
	}
	many := map[place]int{}
	longest := map[place]time.Duration{}
	for _, h := range handlers {
		p := place{h.Stage, h.At, h.Waits, h.Suspended, h.At == "" && h.Stack == nil && h.Waits != ""}
		many[p]++
		longest[p] = max(longest[p], h.For)
	}
	for p, n := range many {
		var b strings.Builder
		switch {
		case p.carries:
			fmt.Fprintf(&b, "stage %q: %s with commands to hand over", p.stage, count(n, "worker"))
		case p.suspended:
			fmt.Fprintf(&b, "stage %q: %s", p.stage, count(n, "suspended handler"))
		default:
			fmt.Fprintf(&b, "stage %q: %s", p.stage, count(n, "handler"))
		}
		if p.at != "" {
			fmt.Fprintf(&b, " in %s", p.at)
		}
		if d := longest[p]; d > 0 {
			fmt.Fprintf(&b, ", for %v", d.Round(time.Millisecond))
		}
		b.WriteString(", waiting for " + cmp.Or(p.waits, "no known stage"))
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return lines
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Circle returns stages each of which waits for the next, with the first one
// again at the end, or nil if there are none.
func Circle(handlers []engine.Stuck) []string {
	next := map[string][]string{}
	for _, h := range handlers {
		if h.Awaited != "" && !slices.Contains(next[h.Stage], h.Awaited) {
			next[h.Stage] = append(next[h.Stage], h.Awaited)
		}
	}
	seen := map[string]bool{}
	var walk func(way []string) []string
	walk = func(way []string) []string {
		at := way[len(way)-1]
		if i := slices.Index(way[:len(way)-1], at); i >= 0 {
			return way[i:]
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for _, to := range next[at] {
			if c := walk(append(slices.Clone(way), to)); c != nil {
				return c
			}
		}
		return nil
	}
	for _, h := range handlers { // in the order of the report
		if c := walk([]string{h.Stage}); c != nil {
			return c
		}
	}
	return nil
}
