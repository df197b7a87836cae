package pipeline

import (
	"fmt"
	"iter"
	"slices"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/feed"
)

// passage follows the commands of a feed.
type passage struct {
	next func(*engine.Core) []*engine.Core // where the ports of a stage lead
}

// mostSteps is how many steps a passage takes: of a graph with more paths it
// says nothing.
const mostSteps = 10_000

// standsStill returns why a feed with a checkpoint would wait for ever: a
// window behind it takes more commands than a checkpoint lets pass, and nothing
// else closes it. The result is empty if no window is known to do that.
func (p passage) standsStill(from *engine.Core) string {
	for c, needs := range p.endless(from, feed.Width) {
		return fmt.Sprintf("its checkpoint lets %d commands pass behind the first that has not ended, and only %d commands close a window of "+
			"stage %q, which would wait for ever: give the window a time or a smaller count, or use pipeline.Checkpoint instead, which saves "+
			"open windows", feed.Width, needs, c.Name())
	}
	return ""
}

// endless returns the stages with windows that only more commands close than
// come of so many, and how many that are. Of stages of which it is not known
// how many commands come, it says nothing.
func (p passage) endless(from *engine.Core, most int) iter.Seq2[*engine.Core, int] {
	come, order := p.come(from)
	return func(yield func(*engine.Core, int) bool) {
		for _, c := range order {
			if h := holder(c); h != nil && h.NeedsCommands() > come[c]*most && !yield(c, h.NeedsCommands()) {
				return
			}
		}
	}
}

// come returns how many commands of one come to each stage at most, as far as
// that is known, and the stages in the order of the way.
func (p passage) come(from *engine.Core) (come map[*engine.Core]int, order []*engine.Core) {
	come, steps := map[*engine.Core]int{}, 0
	var follow func(c *engine.Core)
	follow = func(c *engine.Core) {
		if steps++; steps > mostSteps {
			return
		}
		if come[c]++; come[c] == 1 {
			order = append(order, c)
		}
		if holder(c) != nil {
			return // a window does not wait for commands that are made from its results
		}
		next := p.next(c)
		if len(next) > 0 && !c.Spec().Single() {
			return
		}
		for _, to := range next {
			follow(to)
		}
	}
	if follow(from); steps > mostSteps {
		return nil, nil
	}
	return come, order
}

// leads reports whether commands of a stage may come to another one.
func (p passage) leads(from, to *engine.Core) bool {
	seen := map[*engine.Core]bool{}
	var look func(c *engine.Core) bool
	look = func(c *engine.Core) bool {
		if c == to {
			return true
		}
		if seen[c] {
			return false
		}
		seen[c] = true
		return slices.ContainsFunc(p.next(c), look)
	}
	return look(from)
}

// needer is a stage that collects commands.
type needer interface {
	// NeedsCommands returns how many commands close an open window if nothing
	// else closes it; 0 if a time does, or if the number is not known.
	NeedsCommands() int
}

func holder(c *engine.Core) needer {
	h, _ := c.Inbox().Config().Holder.(needer)
	return h
}
