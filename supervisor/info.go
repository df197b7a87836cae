package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/plain"
)

// State is what a child is about.
type State uint8

// The states.
const (
	// Down children have ended, were terminated, or were never needed. OTP's
	// undefined.
	Down State = iota
	// Starting children have not said yet that they are ready, or wait for those
	// before them.
	Starting
	// Running children are up.
	Running
	// Stopping children were told to stop.
	Stopping
	// Restarting children have failed, or were stopped on behalf of one that has, and
	// wait for their next start.
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

// ChildInfo is a child at one instant.
type ChildInfo struct {
	Name        string
	State       State
	Restart     Restart
	Significant bool
	Since       time.Time // when it came to that state
	Restarts    int       // how often it was started again
	Until       time.Time // when it may be started, if it pauses
	Last        error     // why it ended last, nil if it never has
	PID         *PID      // nil if it has no incarnation
	Supervisor  *Info     // what it supervises, if it is a supervisor

	tree   *Tree // nil if there is none to ask
	worker bool
}

// Info is a supervisor at one instant.
type Info struct {
	Name      string
	Strategy  Strategy
	Intensity Intensity
	Used      int // restarts within the period
	Children  []ChildInfo
}

// Counts is how many children there are: OTP's count_children.
type Counts struct {
	Specs       int // all
	Active      int // with an incarnation
	Supervisors int
	Workers     int
}

// Info returns a picture of the supervisor and of those below. After its end it is
// the last one.
func (t *Tree) Info() Info {
	info := t.look()
	for i := range info.Children {
		if c := &info.Children[i]; c.tree != nil {
			below := c.tree.Info()
			c.Supervisor = &below
		}
	}
	return info
}

// Children is OTP's which_children, the first that was started first.
func (t *Tree) Children() []ChildInfo { return t.Info().Children }

// Count is OTP's count_children.
func (t *Tree) Count() (n Counts) {
	for _, c := range t.look().Children {
		n.Specs++
		if c.PID != nil {
			n.Active++
		}
		if c.worker {
			n.Workers++
		} else {
			n.Supervisors++
		}
	}
	return n
}

// look asks the supervisor for its picture, without those below.
func (t *Tree) look() Info {
	r := &request{do: look}
	if _, err := t.ask(context.Background(), r); err != nil {
		last := t.last
		last.Children = slices.Clone(last.Children) // for the caller alone
		return last
	}
	return r.info
}

// info is the supervisor as it sees itself.
func (k *keeper) info() Info {
	now := time.Now()
	info := Info{Name: k.spec.Name, Strategy: k.spec.Strategy, Intensity: k.spec.Intensity}
	for _, at := range k.restarts {
		if now.Sub(at) <= k.spec.Intensity.Within {
			info.Used++
		}
	}
	for _, c := range k.kids {
		info.Children = append(info.Children, ChildInfo{
			Name: c.id, State: c.state(), Restart: c.child.Restart, Significant: c.child.Significant,
			Since: c.since, Restarts: int(max(c.births-1, 0)), Until: c.after, Last: c.last, PID: c.pid,
			tree: c.tree, worker: c.child.Supervisor == nil,
		})
	}
	return info
}

func (c *kid) state() State {
	switch {
	case c.going:
		return Stopping
	case c.pid != nil && c.dead:
		return Down
	case c.pid != nil && c.up:
		return Running
	case c.pid != nil:
		return Starting
	case c.due && c.births == 0:
		return Starting
	case c.due:
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

// terms tells how the supervisor supervises.
func (i Info) terms() string {
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

// line tells of a child in a line.
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

// mermaid draws a supervisor and those below, and returns its node.
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

// label makes a name safe to be drawn.
func label(s string) string {
	return strings.NewReplacer(`"`, "#quot;", "<", "&lt;", ">", "&gt;").Replace(s)
}
