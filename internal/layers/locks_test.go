package layers

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages whose functions run in a transition of an inbox.
var inTransitions = []order{{pkg: "internal/line"}, {pkg: "internal/gate"}, {pkg: "internal/command"}, {pkg: "internal/pool"}, {pkg: "internal/inbox"}}

// A transition of an inbox runs under the inbox's lock. It takes no second one: what needs another lock, as the tokens of
// a shared pool do, is an effect. A transition is a function that gets the state, with a name or
// without.
func TestNoTransitionOfAnInboxTakesALock(t *testing.T) {
	calls, transitions := calls(t)
	require.Greater(t, len(transitions), 100)
	seen := map[string]bool{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if seen[name] {
			return
		}
		seen[name] = true
		path = append(slices.Clip(path), name)
		if locks(name) {
			t.Errorf("a transition takes a lock:\n\t%s", strings.Join(path, "\n\t"))
			return
		}
		for _, callee := range calls[name] {
			visit(callee, path)
		}
	}
	for _, name := range transitions {
		visit(name, nil)
	}
	require.Contains(t, seen, "(*"+module+"/internal/line.guarded).Push", "a call of an interface leads to other packages")
}

// locks reports whether a function is one that takes a lock.
func locks(name string) bool {
	switch name {
	case "(*" + module + "/internal/yield.Lock).Lock", "(*" + module + "/internal/yield.Lock).LockForSubmitter", "(*" + module + "/internal/yield.Lock).WaitForTurn", "(*sync.Mutex).Lock", "(*sync.RWMutex).Lock", "(*sync.RWMutex).RLock", "(*sync.Mutex).TryLock", "(sync.Locker).Lock":
		return true
	default:
		return false
	}
}

// calls returns the functions that each function uses, by name, and the transitions. A method of an interface uses each
// method of its name in the interface's package.
func calls(t *testing.T) (uses map[string][]string, transitions []string) {
	t.Helper()
	open := exportData(t, inTransitions)
	uses = map[string][]string{}
	for _, p := range inTransitions {
		fset := token.NewFileSet()
		dir, err := build.ImportDir(filepath.Join(root, p.pkg), 0)
		require.NoError(t, err)
		var parsed []*ast.File
		for _, name := range dir.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(dir.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
		config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
		_, err = config.Check(module+"/"+p.pkg, fset, parsed, info)
		require.NoError(t, err)
		methods := map[string][]string{} // by bare name
		var declared []*ast.FuncDecl
		for _, f := range parsed {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					declared = append(declared, fn)
					if fn.Recv != nil {
						methods[fn.Name.Name] = append(methods[fn.Name.Name], info.Defs[fn.Name].(*types.Func).FullName())
					}
				}
			}
		}
		for _, fn := range declared {
			name := info.Defs[fn.Name].(*types.Func).FullName()
			uses[name] = append(uses[name], used(fn.Body, info)...)
			if p.pkg != "internal/inbox" {
				continue
			}
			if getsState(info.Defs[fn.Name].Type().(*types.Signature)) {
				transitions = append(transitions, name)
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if lit, ok := n.(*ast.FuncLit); ok && getsState(info.Types[lit].Type.(*types.Signature)) {
					inner := name + ", a function in it"
					uses[inner] = append(uses[inner], used(lit.Body, info)...)
					transitions = append(transitions, inner)
				}
				return true
			})
		}
		for _, name := range interfaceMethods(info) {
			uses[name] = append(uses[name], methods[name[strings.LastIndex(name, ".")+1:]]...)
		}
	}
	return uses, transitions
}

// used returns the functions that a body uses.
func used(body *ast.BlockStmt, info *types.Info) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := info.Uses[id].(*types.Func); ok {
				names = append(names, f.Origin().FullName())
			}
		}
		return true
	})
	return names
}

// getsState reports whether the receiver or a parameter is a *state.
func getsState(sig *types.Signature) bool {
	isState := func(v *types.Var) bool {
		return v != nil && strings.HasSuffix(v.Type().String(), "internal/inbox.state")
	}
	for v := range sig.Params().Variables() {
		if isState(v) {
			return true
		}
	}
	return isState(sig.Recv())
}

// interfaceMethods returns the methods of the interfaces that a package declares.
func interfaceMethods(info *types.Info) (names []string) {
	for _, o := range info.Defs {
		tn, ok := o.(*types.TypeName)
		if !ok || !types.IsInterface(tn.Type()) {
			continue
		}
		for m := range tn.Type().Underlying().(*types.Interface).Methods() {
			names = append(names, m.FullName())
		}
	}
	return names
}
