package layers

import (
	"fmt"
	"slices"
	"strings"
)

// plan is the parsed text of the layers.
type plan []line

// line is the entry of one package, or of all packages under "name/*".
type line struct {
	layer, pkg string
	may        []string
}

// parse reads a text in the form of layers. A line that starts with -- starts a layer; a line without a colon continues
// the line before.
func parse(text string) (plan, error) {
	var p plan
	var layer string
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		pkg, may, colon := strings.Cut(row, ":")
		switch {
		case len(words) == 0:
			continue
		case words[0] == "--" && len(words) > 1:
			layer = strings.TrimSuffix(words[1], ":")
			continue
		case colon && layer != "":
			p = append(p, line{layer: layer, pkg: strings.TrimSpace(pkg)})
			words = strings.Fields(may)
		case len(p) == 0:
			return nil, fmt.Errorf("layers: %q is in no layer", strings.TrimSpace(row))
		}
		last := &p[len(p)-1]
		last.may = append(last.may, words...)
	}
	return p, p.check()
}

// check finds packages that are named twice, or before they have a line.
func (p plan) check() error {
	seen := []string{"*"}
	for _, l := range p {
		for _, m := range l.may {
			if !slices.Contains(seen, m) {
				return fmt.Errorf("layers: %s may import %s, which has no line above it", l.pkg, m)
			}
		}
		if slices.Contains(seen, l.pkg) {
			return fmt.Errorf("layers: %s has two lines", l.pkg)
		}
		seen = append(seen, l.pkg)
	}
	return nil
}

// find returns the line of a package.
func (p plan) find(pkg string) (line, bool) {
	for _, l := range p {
		if l.covers(pkg) {
			return l, true
		}
	}
	return line{}, false
}

// covers reports whether the line is about the package.
func (l line) covers(pkg string) bool {
	parent, wild := strings.CutSuffix(l.pkg, "/*")
	if wild {
		return under(pkg, parent) && pkg != parent
	}
	return pkg == l.pkg
}

// allows reports whether the line allows its package to import another one.
func (l line) allows(pkg string) bool {
	return slices.Contains(l.may, "*") || slices.Contains(l.may, pkg)
}

// under reports whether an import path is the parent or lies below it.
func under(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}
