package layers

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// unknownPackages finds packages without a line in the plan.
func unknownPackages(p plan, sources []source) (faults []string) {
	for _, pkg := range packagesOf(sources) {
		if _, ok := p.find(pkg); !ok {
			faults = append(faults, fmt.Sprintf("package %q has no line in internal/layers/layers_test.go: "+
				"decide on its layer and what it may import, and add a line there", pkg))
		}
	}
	return faults
}

// emptyLines finds lines of the plan without a package.
func emptyLines(p plan, sources []source) (faults []string) {
	packages := packagesOf(sources)
	for _, l := range p {
		if !slices.ContainsFunc(packages, l.covers) {
			faults = append(faults, fmt.Sprintf("the line %q in internal/layers/layers_test.go is about no package: "+
				"add the package or remove the line", l.pkg))
		}
	}
	return faults
}

// wrongImports finds imports inside the project that the plan does not allow. Tests may import any package of the
// project; the compiler forbids cycles.
func wrongImports(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		from, ok := p.find(s.pkg)
		if s.test || !ok {
			continue
		}
		for imported, at := range s.imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours && imported != module || from.allows(to) {
				continue
			}
			faults = append(faults, s.fault(at, "%s may not import %s: the layers do not allow it "+
				"(see internal/layers/layers_test.go)", s.pkg, to))
		}
	}
	return faults
}

// protoactorImports finds imports of protoactor outside its package, also in tests.
func protoactorImports(sources []source) (faults []string) {
	for _, s := range sources {
		for imported, at := range s.imports {
			if under(imported, protoactor) && s.pkg != protoactorPackage {
				faults = append(faults, s.fault(at, "only %s imports protoactor; "+
					"add a function to it for what is needed here", protoactorPackage))
			}
		}
	}
	return faults
}

// thirdPartyImports finds imports of third-party dependencies below the top layer.
func thirdPartyImports(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		if l, ok := p.find(s.pkg); ok && l.layer == openLayer {
			continue
		}
		allowed := slices.Concat(family, []string{module, protoactor}) // the last has a rule of its own
		if s.test {
			allowed = append(allowed, testDependencies...)
		}
		for imported, at := range s.imports {
			host, _, _ := strings.Cut(imported, "/")
			known := func(dependency string) bool { return under(imported, dependency) }
			if !strings.Contains(host, ".") || slices.ContainsFunc(allowed, known) {
				continue
			}
			faults = append(faults, s.fault(at, "%s may not import %s: third-party dependencies belong in "+
				"adapter and examples", s.pkg, imported))
		}
	}
	return faults
}

// worldly are the functions that give access to a clock.
var worldly = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"context": {
		"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc",
	},
}

// impure finds goroutines, locks and clocks in the ground layer.
func impure(p plan, sources []source) (faults []string) {
	for _, s := range sources {
		if l, ok := p.find(s.pkg); !ok || l.layer != "ground" || s.test {
			continue
		}
		faults = append(faults, s.impurities()...)
	}
	return faults
}

func (s source) impurities() (faults []string) {
	const pure = "the ground layer is pure: "
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

// worldlyNames returns the names that the file uses for the worldly packages, and the dot imports of them.
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
