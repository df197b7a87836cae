package policy

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// hurry drops commands that have waited for too long in the stages of the entry,
// while commands are refused or one has waited for too long.
func (c *objective) hurry(s *controller.Snapshot, d *controller.Decisions) {
	if c.aim.Keep {
		return
	}
	bound := c.wait()
	for i := range s.Stages {
		st := &s.Stages[i]
		if c.aim.Stage != "" && st.Name != c.aim.Stage || c.aim.Stage == "" && s.Group == "" && st.Rank > 0 || st.Paused {
			continue
		}
		e := c.entries.of(st.Name)
		late := st.QueueLen > 0 && st.OldestWait > bound
		if late {
			e.late, e.lateAt = true, s.At
		}
		e.late = e.late && s.At-e.lateAt < calmAfter
		c.bound(controller.StageID(i), st, e, bound, d)
	}
	c.entries.keep(len(s.Stages)+1, func(i int) string {
		if i == len(s.Stages) {
			return ""
		}
		return s.Stages[i].Name
	})
}

// bound sets how long commands may wait at a stage, and their order.
func (c *objective) bound(id controller.StageID, st *controller.StageStats, e *entrance, bound time.Duration, d *controller.Decisions) {
	want := time.Duration(0)
	if c.pressing || e.late {
		want = bound.Truncate(time.Millisecond)
	}
	differs := want - st.Sojourn
	if want == 0 || st.Sojourn == 0 || max(differs, -differs) > st.Sojourn/leastWait {
		if want != st.Sojourn {
			controller.KnobSojourn.Set(d, id, want, fmt.Sprintf("%s: %d wait, the oldest for %v; handlers take %v",
				c.name, st.QueueLen, precise(st.OldestWait.Seconds()), precise(c.load.tail)))
		}
	}
	switch {
	case e.late && st.Discipline == oldestFirst:
		e.turned = true
		controller.KnobDiscipline.Set(d, id, newestFirst, c.name+": the oldest commands are too late")
	case e.turned && !e.late:
		e.turned = false
		controller.KnobDiscipline.Set(d, id, oldestFirst, fmt.Sprintf("%s: none has been too late for %v", c.name, calmAfter))
	}
}
