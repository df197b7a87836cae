package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/graph"
)

// Mermaid returns the pipeline as a Mermaid flowchart, which many web pages
// show as a picture. A declared port is a solid arrow with the port's name. An
// edge that a handler took without declaring it is dashed, and known only once
// it was taken. A back edge, which closes a loop, is marked with [MaxInFlight],
// its only bound. Stages that share workers are drawn in one frame, and feeds
// as round nodes. A stage with guards says so.
func (p *Pipeline) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	stages, frames := p.frames()
	where := p.Assignments()
	for i, f := range frames {
		fmt.Fprintf(&b, "    subgraph g%d[%s]\n", i, mermaidText(at(f.name, where)))
		for _, c := range f.stages {
			fmt.Fprintf(&b, "        s%d[%s]\n", c.Inbox().Place, mermaidText(marked(c, c.Name())))
		}
		b.WriteString("    end\n")
	}
	for _, c := range stages {
		fmt.Fprintf(&b, "    s%d[%s]\n", c.Inbox().Place, mermaidText(marked(c, at(c.Name(), where))))
	}
	for i, f := range p.drawnFeeds() {
		fmt.Fprintf(&b, "    f%d([%s]) --> s%d\n", i, mermaidText(f.name), f.core.Inbox().Place)
	}
	for _, e := range p.edges() {
		arrow := "-->"
		if e.Port == "" {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "    s%d %s%s s%d\n", e.From, arrow, mermaidLabel(label(e)), e.To)
	}
	return b.String()
}

// DOT returns the same drawing as [Pipeline.Mermaid], in the language of
// Graphviz.
func (p *Pipeline) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=LR\n    node [shape=box]\n", strconv.Quote(p.life.name))
	stages, frames := p.frames()
	where := p.Assignments()
	for i, f := range frames {
		fmt.Fprintf(&b, "    subgraph cluster%d {\n        label=%s\n", i, strconv.Quote(at(f.name, where)))
		for _, c := range f.stages {
			fmt.Fprintf(&b, "        s%d [label=%s]\n", c.Inbox().Place, strconv.Quote(marked(c, c.Name())))
		}
		b.WriteString("    }\n")
	}
	for _, c := range stages {
		fmt.Fprintf(&b, "    s%d [label=%s]\n", c.Inbox().Place, strconv.Quote(marked(c, at(c.Name(), where))))
	}
	for i, f := range p.drawnFeeds() {
		fmt.Fprintf(&b, "    f%d [label=%s, shape=ellipse]\n", i, strconv.Quote(f.name))
		fmt.Fprintf(&b, "    f%d -> s%d [style=solid, label=\"\"]\n", i, f.core.Inbox().Place)
	}
	for _, e := range p.edges() {
		style := "solid"
		if e.Port == "" {
			style = "dashed"
		}
		fmt.Fprintf(&b, "    s%d -> s%d [style=%s, label=%s]\n", e.From, e.To, style, strconv.Quote(label(e)))
	}
	b.WriteString("}\n")
	return b.String()
}

// drawnFeeds returns the feeds whose stages are there, without the feeds from
// other processes, which the drawing shows as edges between stages.
func (p *Pipeline) drawnFeeds() []*feeding {
	stages := p.stages().stages
	return slices.DeleteFunc(p.feeds.list(), func(f *feeding) bool { return f.carried || !slices.Contains(stages, f.core) })
}

// marked returns the name of a stage, which says if the stage has guards of its
// own.
func marked(c *engine.Core, name string) string {
	if g := c.Inbox().Config().Guards; g != nil && len(g.State) > 0 {
		return name + " (guards)"
	}
	return name
}

// at returns a name with the process that it is mapped to.
func at(name string, where map[string]string) string {
	if process := where[name]; process != "" {
		return name + " @ " + process
	}
	return name
}

// frame is a frame of a drawing: stages that share workers.
type frame struct {
	name   string
	stages []*engine.Core
}

// frames returns the stages that have workers of their own, and the stages that
// share workers by their pools. Before the start that is as the groups were
// declared.
func (p *Pipeline) frames() (alone []*engine.Core, frames []frame) {
	for _, c := range p.stages().stages {
		name := p.frameOf(c)
		i := slices.IndexFunc(frames, func(f frame) bool { return f.name == name })
		switch {
		case name == "":
			alone = append(alone, c)
		case i < 0:
			frames = append(frames, frame{name, []*engine.Core{c}})
		default:
			frames[i].stages = append(frames[i].stages, c)
		}
	}
	return alone, frames
}

func (p *Pipeline) frameOf(c *engine.Core) string {
	if sp := c.Inbox().Settings().Pool(); sp != nil {
		return sp.Name()
	}
	if !p.life.in(made) {
		return ""
	}
	for _, g := range p.groups {
		if slices.Contains(g.stages, c) {
			return g.name
		}
	}
	return ""
}

// label returns the text that a drawing has on an edge.
func label(e graph.Edge) string {
	if e.Back {
		return strings.TrimSpace(e.Port + " (back, MaxInFlight)")
	}
	return e.Port
}

// mermaidText quotes a name. Inside quotes Mermaid accepts any character except
// a quote, and # starts the code of a character.
func mermaidText(s string) string {
	s = strings.NewReplacer("#", "#35;", `"`, "#quot;", "\n", " ").Replace(s)
	return `"` + s + `"`
}

func mermaidLabel(s string) string {
	if s == "" {
		return ""
	}
	return "|" + mermaidText(s) + "|"
}

// Successors returns, by name, the stages to which each stage sends commands:
// the targets of its ports and flows, and the stages to which its handlers have
// forwarded or emitted by now. For a stage that runs in another process it has
// the ports and flows only. A stage without successors is left out.
func (p *Pipeline) Successors() map[string][]string {
	name := map[int]string{}
	for _, c := range p.stages().stages {
		name[c.Inbox().Place] = c.Name()
	}
	to := map[string][]string{}
	for _, e := range p.edges() {
		if from, next := name[e.From], name[e.To]; from != "" && next != "" && !slices.Contains(to[from], next) {
			to[from] = append(to[from], next)
		}
	}
	return to
}

// edges returns the edges that are known, and the declared ones of stages that
// run in other processes.
func (p *Pipeline) edges() []graph.Edge {
	edges := p.graph.Edges()
	places := map[*behaviour.Inlet]int{}
	for _, c := range p.stages().stages {
		places[c.Inbox().Inlet()] = c.Inbox().Place
	}
	for _, c := range p.stages().stages {
		if c.Process() == "" {
			continue
		}
		for _, port := range c.Spec().Outs() {
			if to, ours := places[port.Inlet()]; ours {
				edges = append(edges, graph.Edge{From: c.Inbox().Place, To: to, Port: port.Name()})
			}
		}
	}
	return edges
}
