package floors

import (
	"fmt"
	"slices"
	"strings"
)

// plan is the text of the floors, read.
type plan []line

// line is what the plan says of one room, or of all rooms under "name/*".
type line struct {
	floor, room string
	may         []string
}

// parse reads a text in the form of floors. A line that begins with -- opens a
// floor; one without a colon goes on from the line before.
func parse(text string) (plan, error) {
	var p plan
	var floor string
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		room, may, colon := strings.Cut(row, ":")
		switch {
		case len(words) == 0:
			continue
		case words[0] == "--" && len(words) > 1:
			floor = strings.TrimSuffix(words[1], ":")
			continue
		case colon && floor != "":
			p = append(p, line{floor: floor, room: strings.TrimSpace(room)})
			words = strings.Fields(may)
		case len(p) == 0:
			return nil, fmt.Errorf("floors: %q stands on no floor", strings.TrimSpace(row))
		}
		last := &p[len(p)-1]
		last.may = append(last.may, words...)
	}
	return p, p.check()
}

// check finds rooms that are named twice, or before they have a line.
func (p plan) check() error {
	seen := []string{"*"}
	for _, l := range p {
		for _, m := range l.may {
			if !slices.Contains(seen, m) {
				return fmt.Errorf("floors: %s may import %s, which has no line above it", l.room, m)
			}
		}
		if slices.Contains(seen, l.room) {
			return fmt.Errorf("floors: %s has two lines", l.room)
		}
		seen = append(seen, l.room)
	}
	return nil
}

// find returns the line that speaks of a room.
func (p plan) find(room string) (line, bool) {
	for _, l := range p {
		if l.covers(room) {
			return l, true
		}
	}
	return line{}, false
}

// covers reports whether the line speaks of the room.
func (l line) covers(room string) bool {
	parent, wild := strings.CutSuffix(l.room, "/*")
	if wild {
		return under(room, parent) && room != parent
	}
	return room == l.room
}

// allows reports whether the line lets its room import another.
func (l line) allows(room string) bool {
	return slices.Contains(l.may, "*") || slices.Contains(l.may, room)
}

// under reports whether an import path is the parent or lies below it.
func under(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}
