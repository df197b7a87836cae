package layers

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The inbox chooses a line in one place, and knows it by the interface from
// then on. So a kind of queue is a type in internal/line, and no branch elsewhere.
func TestNothingOutsideOfLineNamesAnImplementation(t *testing.T) {
	made := constructorsOfLines(t)
	require.NotEmpty(t, made)
	sources, err := read(os.DirFS(root))
	require.NoError(t, err)
	found := 0
	for _, s := range sources {
		if s.test || s.pkg == "internal/line" {
			continue
		}
		for _, d := range s.file.Decls {
			f, _ := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !isLine(sel.X) || !slices.Contains(made, sel.Sel.Name) {
					return true
				}
				found++
				if f == nil || f.Name.Name != "configure" || s.pkg != "internal/inbox" {
					t.Error(s.fault(sel.Pos(), "line.%s is called outside of Inbox.configure", sel.Sel.Name))
				}
				return true
			})
		}
	}
	require.GreaterOrEqual(t, found, len(made), "the inbox makes lines by their constructors")
}

func isLine(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "line"
}

// constructorsOfLines returns the functions of internal/line that make a line of
// a kind, and fails if an implementation has an exported name.
func constructorsOfLines(t *testing.T) (names []string) {
	t.Helper()
	open := exportData(t, []order{{pkg: "internal/line"}})
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", open).Import(module + "/internal/line")
	require.NoError(t, err)
	scope := pkg.Scope()
	line := scope.Lookup("Line").Type()
	for _, name := range scope.Names() {
		switch o := scope.Lookup(name).(type) {
		case *types.TypeName:
			implements := types.Implements(types.NewPointer(o.Type()), line.Underlying().(*types.Interface))
			require.False(t, o.Exported() && implements && !types.IsInterface(o.Type()), "%s is a line, and has an exported name", name)
		case *types.Func:
			sig := o.Type().(*types.Signature)
			makes := sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), line)
			if makes && o.Exported() {
				names = append(names, name)
			}
		}
	}
	return names
}
