package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/plain"
)

// State is the lifecycle state of a child.
type State uint8

// The states.
const (
	// Down children have ended, were terminated, or were never needed. OTP
	// calls this undefined.
	Down State = iota
	// Starting children have not yet reported that they are ready, or wait for
	// the children before them.
	Starting
	// Running children are up.
	Running
	// Stopping children were asked to stop.
	Stopping
	// Restarting children have failed, or were stopped on behalf of one that
	// has, and wait for their next start.
	Restarting
)

// String returns the state in a word.
func (s State) String() string {
	switch s {
	case Down:
		return "down"
	case Starting:
		return "starting"
	case Running:
		return "running"
	case Stopping:
		return "stopping"
	case Restarting:
		return "restarting"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// ChildInfo is a snapshot of a child.
type ChildInfo struct {
	Name        string
	State       State
	Restart     Restart
	Significant bool
	Since       time.Time // when it entered that state
	Restarts    int       // how often it was started again
	Until       time.Time // when it may be started, if it pauses
	Last        error     // why it ended last; nil if it never ended
	PID         *PID      // nil if it has no incarnation
	// Detail has details from the owner; pipeline.Pipeline.Tree shows the
	// workers of a stage.
	Detail     string
	Supervisor *Info // the nested supervisor, if the child is one

	tree *Tree // nil if there is none to query
}

// Info is a snapshot of a supervisor.
type Info struct {
	Name      string
	Strategy  Strategy
	Intensity Intensity
	Used      int // restarts within the period
	Children  []ChildInfo
}

// Info returns a snapshot of the supervisor and of the supervisors below it.
// After the supervisor's end it returns the last snapshot.
func (t *Tree) Info() Info {
	info := t.inspect()
	for i := range info.Children {
		if c := &info.Children[i]; c.tree != nil {
			below := c.tree.Info()
			c.Supervisor = &below
		}
	}
	return info
}

// Children is OTP's which_children, with the counts of count_children. The
// children are in the order of their start.
func (t *Tree) Children() []ChildInfo { return t.Info().Children }

// inspect returns a snapshot of the supervisor, without those below.
func (t *Tree) inspect() Info {
	r := &request{do: inspect}
	if _, err := t.do(context.Background(), r); err != nil {
		last := t.last
		last.Children = slices.Clone(last.Children) // the caller may change it
		return last
	}
	return r.info
}

// info takes a snapshot of the supervisor.
func (s *supervisor) info() Info {
	now := time.Now()
	info := Info{Name: s.spec.Name, Strategy: s.spec.Strategy, Intensity: s.spec.Intensity}
	for _, at := range s.restarts {
		if now.Sub(at) <= s.spec.Intensity.Within {
			info.Used++
		}
	}
	for _, c := range s.children {
		info.Children = append(info.Children, ChildInfo{
			Name: c.id, State: c.state(), Restart: c.child.Restart, Significant: c.child.Significant,
			Since: c.since, Restarts: int(max(c.starts-1, 0)), Until: c.after, Last: c.last, PID: c.pid,
			tree: c.tree,
		})
	}
	return info
}

func (c *childState) state() State {
	switch {
	case c.toStop:
		return Stopping
	case c.pid != nil && c.dead:
		return Down
	case c.pid != nil && c.up:
		return Running
	case c.pid != nil:
		return Starting
	case c.toStart && c.starts == 0:
		return Starting
	case c.toStart:
		return Restarting
	default:
		return Down
	}
}

// String draws the tree as text.
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", i.Name, i.terms())
	i.draw(&b, "", time.Now())
	return b.String()
}

// terms returns the strategy and the intensity as text.
func (i Info) terms() string {
	if i.Intensity.Restarts == 0 {
		return fmt.Sprintf("(%v, no restarts)", i.Strategy)
	}
	return fmt.Sprintf("(%v, %d of %d restarts in %v)", i.Strategy, i.Used, i.Intensity.Restarts, i.Intensity.Within)
}

func (i Info) draw(b *strings.Builder, indent string, now time.Time) {
	for n, c := range i.Children {
		branch, more := "├── ", "│   "
		if n == len(i.Children)-1 {
			branch, more = "└── ", "    "
		}
		b.WriteString(indent + branch + c.line(now) + "\n")
		if c.Supervisor != nil {
			c.Supervisor.draw(b, indent+more, now)
		}
	}
}

// line describes the child in one line.
func (c ChildInfo) line(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v for %v", c.Name, c.State, now.Sub(c.Since).Round(time.Millisecond))
	if c.Restart != Permanent {
		fmt.Fprintf(&b, ", %v", c.Restart)
	}
	if c.Significant {
		b.WriteString(", significant")
	}
	if c.Restarts > 0 {
		fmt.Fprintf(&b, ", restarts: %d", c.Restarts)
	}
	if c.Detail != "" {
		b.WriteString(", " + c.Detail)
	}
	if c.Until.After(now) {
		fmt.Fprintf(&b, ", pauses for %v", c.Until.Sub(now).Round(time.Millisecond))
	}
	if c.Last != nil {
		fmt.Fprintf(&b, ", last: %s", plain.Text(c.Last))
	}
	if c.Supervisor != nil {
		b.WriteString(" " + c.Supervisor.terms())
	}
	return b.String()
}

// Mermaid draws the tree as a Mermaid flowchart.
func (i Info) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TB\n")
	next := 0
	i.mermaid(&b, &next, i.Name)
	return b.String()
}

// mermaid draws the supervisor and those below, and returns its node.
func (i Info) mermaid(b *strings.Builder, next *int, name string) string {
	node := fmt.Sprintf("n%d", *next)
	*next++
	fmt.Fprintf(b, "  %s[\"%s<br/>%v\"]\n", node, label(name), i.Strategy)
	for _, c := range i.Children {
		var below string
		if c.Supervisor != nil {
			below = c.Supervisor.mermaid(b, next, c.Name)
		} else {
			below = fmt.Sprintf("n%d", *next)
			*next++
			fmt.Fprintf(b, "  %s([\"%s<br/>%v, restarts: %d\"])\n", below, label(c.Name), c.State, c.Restarts)
		}
		fmt.Fprintf(b, "  %s --> %s\n", node, below)
	}
	return node
}

// label escapes a name for Mermaid.
func label(s string) string {
	return strings.NewReplacer(`"`, "#quot;", "<", "&lt;", ">", "&gt;").Replace(s)
}
