package floors

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// unknownRooms finds rooms of which the plan says nothing.
func unknownRooms(p plan, sources []source) (faults []string) {
	for _, room := range roomsOf(sources) {
		if _, ok := p.find(room); !ok {
			faults = append(faults, fmt.Sprintf("room %q has no line in internal/floors/floors_test.go: "+
				"decide which floor it stands on and what it may import, and write that down there", room))
		}
	}
	return faults
}

// emptyLines finds lines of the plan whose rooms are not there.
func emptyLines(p plan, sources []source) (faults []string) {
	rooms := roomsOf(sources)
	for _, l := range p {
		if !slices.ContainsFunc(rooms, l.covers) {
			faults = append(faults, fmt.Sprintf("the line %q in internal/floors/floors_test.go speaks of no room: "+
				"build it or take the line out", l.room))
		}
	}
	return faults
}

// wrongWays finds imports inside the house that the plan does not allow. Tests
// may import what they like of it; the compiler forbids circles.
func wrongWays(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		from, ok := p.find(s.room)
		if s.test || !ok {
			continue
		}
		for imported, at := range s.imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours && imported != module || from.allows(to) {
				continue
			}
			faults = append(faults, s.fault(at, "%s may not import %s: the house is not built that way "+
				"(see internal/floors/floors_test.go)", s.room, to))
		}
	}
	return faults
}

// strayActors finds imports of protoactor outside its room, in tests too.
func strayActors(sources []source) (faults []string) {
	for _, s := range sources {
		for imported, at := range s.imports {
			if under(imported, protoactor) && s.room != protoactorRoom {
				faults = append(faults, s.fault(at, "only %s imports protoactor; "+
					"give it a function for what is needed here", protoactorRoom))
			}
		}
	}
	return faults
}

// strayGuests finds imports of third-party packages below the top floor.
func strayGuests(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		if l, ok := p.find(s.room); ok && l.floor == guestFloor {
			continue
		}
		welcome := slices.Concat(family, []string{module, protoactor}) // the last has a rule of its own
		if s.test {
			welcome = append(welcome, testGuests...)
		}
		for imported, at := range s.imports {
			host, _, _ := strings.Cut(imported, "/")
			known := func(guest string) bool { return under(imported, guest) }
			if !strings.Contains(host, ".") || slices.ContainsFunc(welcome, known) {
				continue
			}
			faults = append(faults, s.fault(at, "%s may not import %s: third-party packages live in "+
				"adapter and examples", s.room, imported))
		}
	}
	return faults
}

// worldly are the functions by which a clock or a goroutine gets in.
var worldly = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"context": {
		"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc",
	},
}

// impure finds goroutines, locks and clocks on the ground floor.
func impure(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		if l, ok := p.find(s.room); !ok || l.floor != "ground" || s.test {
			continue
		}
		faults = append(faults, s.impurities()...)
	}
	return faults
}

func (s source) impurities() (faults []string) {
	const pure = "the ground floor is pure: "
	for imported, at := range s.imports {
		if imported == "sync" {
			faults = append(faults, s.fault(at, pure+"no locks"))
		}
	}
	named, dotted := s.worldlyNames()
	for _, spec := range dotted {
		faults = append(faults, s.fault(spec.Pos(), pure+"no dot before %s", spec.Path.Value))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			faults = append(faults, s.fault(n.Pos(), pure+"no goroutines"))
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			if ok && slices.Contains(named[from.Name], n.Sel.Name) {
				faults = append(faults, s.fault(n.Pos(), pure+"no %s.%s; time is an argument", from.Name, n.Sel.Name))
			}
		}
		return true
	})
	return faults
}

// worldlyNames tells by which names the file knows the worldly packages, and
// which of them it imports without any.
func (s source) worldlyNames() (named map[string][]string, dotted []*ast.ImportSpec) {
	named = map[string][]string{}
	for _, spec := range s.file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		functions := worldly[imported]
		switch {
		case functions == nil:
		case spec.Name == nil:
			named[path.Base(imported)] = functions
		case spec.Name.Name == ".":
			dotted = append(dotted, spec)
		default:
			named[spec.Name.Name] = functions
		}
	}
	return named, dotted
}

// linked finds packages that must not be among the dependencies.
func linked(deps []string, mustNot map[string]string) (faults []string) {
	for _, banned := range slices.Sorted(maps.Keys(mustNot)) {
		for _, dep := range deps {
			if under(dep, banned) {
				faults = append(faults, fmt.Sprintf("the core links %s: %s", dep, mustNot[banned]))
			}
		}
	}
	return faults
}
