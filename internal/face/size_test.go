package face

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// core lists the packages whose size is bounded: a reader must understand
// them as a whole.
var core = []string{
	"internal/command", "internal/line", "internal/inbox", "internal/pool", "internal/control", "internal/engine", "worker", "stage", "pipeline",
}

// The bounds. There is no exception.
const (
	mostFields  = 30 // of a struct, with the fields of the structs that it embeds
	mostFiles   = 30 // of a package, tests left out
	mostMethods = 30 // of a type, exported ones
)

func TestTheCoreIsSmall(t *testing.T) {
	sizes := sizes(t)
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if s := sizes[name]; s.is > s.bound {
			t.Errorf("%s: %d, at most %d", name, s.is, s.bound)
		}
	}
}

// size is how large something is, and may be.
type size struct{ is, bound int }

// sizes returns the sizes of the structs, types and packages of the core.
func sizes(t *testing.T) map[string]size {
	t.Helper()
	sizes := map[string]size{}
	fields := structs{}
	methods := map[string]int{}
	for _, pkg := range core {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
		require.NoError(t, err)
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		require.NotEmpty(t, files, pkg)
		sizes["files of "+pkg] = size{len(files), mostFiles}
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			require.NoError(t, err)
			fields.add(pkg, file)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
					methods[path.Base(pkg)+"."+typeName(f.Recv.List[0].Type)]++
				}
			}
		}
	}
	for name := range fields {
		sizes["fields of "+name] = size{fields.count(name), mostFields}
	}
	for name, n := range methods {
		sizes["methods of "+name] = size{n, mostMethods}
	}
	return sizes
}

// structs has the fields of each struct by its name, with its package: their
// number, and the embedded types.
type structs map[string]structure

type structure struct {
	own      int
	embedded []string
}

func (all structs) add(pkg string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		var of structure
		for _, f := range s.Fields.List {
			if len(f.Names) > 0 {
				of.own += len(f.Names)
				continue
			}
			name := typeName(f.Type)
			if !strings.Contains(name, ".") {
				name = path.Base(pkg) + "." + name
			}
			of.embedded = append(of.embedded, name)
		}
		all[path.Base(pkg)+"."+spec.Name.Name] = of
		return true
	})
}

// count returns the number of fields of a struct. An embedded type that is no
// struct of the core is one.
func (all structs) count(name string) int {
	s, ok := all[name]
	if !ok {
		return 1
	}
	n := s.own
	for _, e := range s.embedded {
		n += all.count(e)
	}
	return n
}

// typeName returns the name of a type without its pointer and its parameters.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	case *ast.SelectorExpr:
		return typeName(x.X) + "." + x.Sel.Name
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}

func TestFieldsOfEmbeddedStructsCount(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
type a struct { x, y int; *b; q.c; d[int] }
type b struct { z int; e }
type d[T any] struct { t T }
type e struct { u, v int }
`, parser.SkipObjectResolution)
	require.NoError(t, err)
	all := structs{}
	all.add("at/p", file)
	require.Equal(t, 2+3+1+1, all.count("p.a"))
}
