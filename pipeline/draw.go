package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Mermaid draws the pipeline as a Mermaid flowchart, which many pages show as a
// picture. A declared port is a solid arrow with the port's name; a way that a
// handler took without declaring it is dashed, and known only once it was taken; a
// way back, one that closes a loop, is marked as such.
func (p *Pipeline) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, c := range p.roster().stages {
		fmt.Fprintf(&b, "    s%d[%s]\n", c.Room().Place, mermaidText(c.Name()))
	}
	for _, e := range p.graph.edges() {
		arrow := "-->"
		if e.port == "" {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "    s%d %s%s s%d\n", e.from, arrow, mermaidLabel(e.label()), e.to)
	}
	return b.String()
}

// DOT draws the pipeline in the language of Graphviz, as [Pipeline.Mermaid] does.
func (p *Pipeline) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=LR\n    node [shape=box]\n", strconv.Quote(p.name))
	for _, c := range p.roster().stages {
		fmt.Fprintf(&b, "    s%d [label=%s]\n", c.Room().Place, strconv.Quote(c.Name()))
	}
	for _, e := range p.graph.edges() {
		style := "solid"
		if e.port == "" {
			style = "dashed"
		}
		fmt.Fprintf(&b, "    s%d -> s%d [style=%s, label=%s]\n", e.from, e.to, style, strconv.Quote(e.label()))
	}
	b.WriteString("}\n")
	return b.String()
}

// label is what a drawing writes on a way.
func (e edge) label() string {
	if e.back {
		return strings.TrimSpace(e.port + " (back)")
	}
	return e.port
}

// mermaidText quotes a name: inside quotes Mermaid takes anything but a quote, and
// reads # as the beginning of a character's code.
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
