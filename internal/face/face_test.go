package face

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/golda-dev/golda"

// budget is how many names each public package may export: types, functions, variables and constants, with each constant
// of a group counted. Methods and fields are not counted.
//
// The budget of stage has 12 names for typed, keyed and ordered stages, flows of any behaviour, rates of keys, the retry budget and
// deadlines beyond the 60 of the stages that they are made of, that of pipeline 5 for feeds. Two names more in behaviour,
// and two in stage, are for state that survives a crash; one in stage refuses a call that would never end, three are for guards,
// and one is for options that later ones replace. One more in stage, one in pipeline and five in adapter/nats are for stages that run in several processes, and for calls of these; one more in
// adapter/nats reaches the store of another process. Two more in pipeline are for a checkpoint with states and its error.
// Three more in coordination/rpc start and stop processes at other nodes. Two more in adapter/dashboard/api are the events of a tap,
// and four more, and two in adapter/dashboard, are for the processes of a fleet. One more in controller is a count of decisions, and one more
// in pipeline a flight recorder.
const budget = `
behaviour        32
stage            76
stage/queue      18
stage/headers    7
stage/reason     16
stage/stats      7
stage/overflow   5
stage/route      2
worker           14
pipeline         42
pipeline/flight  2
pipeline/letters 8
pipeline/remote  4
pipeline/bottleneck 12
pipeline/tap     11
pipeline/operate 8
source           17
reexec           1
window           18
window/event     8
coordination/guard 5
coordination/rpc 16
coordination/transport 14
coordination/monitor 7
coordination/synchronizer 8
controller       61
controller/simulator 30
controller/race 9
controller/lab   17
supervisor       60
adapter/dashboard 6
adapter/dashboard/api 43
adapter/failsafe 11
adapter/http     16
adapter/nats     38
adapter/nats/fleet 14
adapter/nats/jobs 18
adapter/otel     3
adapter/watermill 11
vet              6
stage/stagetest  40
`

func TestAPackageExportsNoMoreNamesThanItsBudget(t *testing.T) {
	packages := load(t)
	for line := range strings.Lines(strings.TrimSpace(budget)) {
		var name string
		var most int
		_, err := fmt.Sscan(line, &name, &most)
		require.NoError(t, err, line)
		require.Contains(t, packages, name)
		n := len(exported(packages[name]))
		assert.LessOrEqual(t, n, most, "%s exports too many names: what only the engine uses belongs in an internal package", name)
	}
}

// At most one function or method of a public package takes or returns an internal type: the one by which the packages of
// the module reach inside.
func TestAtMostOneFunctionOfAPackageHasAnInternalType(t *testing.T) {
	packages := load(t)
	public := map[*types.TypeName]bool{} // internal types that a public package has an alias for
	for _, pkg := range packages {
		for _, o := range exported(pkg) {
			if n, ok := o.(*types.TypeName); ok && n.IsAlias() {
				if named, ok := types.Unalias(n.Type()).(*types.Named); ok {
					public[named.Obj()] = true
				}
			}
		}
	}
	for name, pkg := range packages {
		var found []string
		for _, f := range functions(pkg) {
			if mentions(f.Signature(), func(n *types.TypeName) bool { return internal(n) && !public[n] }) {
				found = append(found, f.FullName())
			}
		}
		assert.LessOrEqual(t, len(found), 1, "%s: too many functions with an internal type: %s", name, strings.Join(found, ", "))
	}
}

// internal reports whether a type is of an internal package of the module. A part.Seal is a mark that is made to stand in
// the signatures of public methods.
func internal(n *types.TypeName) bool {
	return n.Pkg() != nil && strings.HasPrefix(n.Pkg().Path(), module+"/internal/") && n.Pkg().Name() != "part"
}

// exported returns what a package exports.
func exported(pkg *types.Package) (all []types.Object) {
	for _, name := range pkg.Scope().Names() {
		if ast.IsExported(name) {
			all = append(all, pkg.Scope().Lookup(name))
		}
	}
	return all
}

// functions returns the functions that a package exports, and the methods of its exported types.
func functions(pkg *types.Package) (all []*types.Func) {
	for _, o := range exported(pkg) {
		switch o := o.(type) {
		case *types.Func:
			all = append(all, o)
		case *types.TypeName:
			set := types.NewMethodSet(types.NewPointer(o.Type()))
			if types.IsInterface(o.Type()) {
				set = types.NewMethodSet(o.Type())
			}
			for m := range set.Methods() {
				f := m.Obj().(*types.Func).Origin()
				if f.Exported() && !slices.Contains(all, f) { // a type that embeds another has its methods too
					all = append(all, f)
				}
			}
		}
	}
	return all
}

// mentions reports whether a type names another one, outside the fields and methods of named types.
func mentions(t types.Type, is func(*types.TypeName) bool) bool {
	anyOf := func(all ...types.Type) bool {
		return slices.ContainsFunc(all, func(t types.Type) bool { return mentions(t, is) })
	}
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return is(t.Obj()) || anyOf(slices.Collect(t.TypeArgs().Types())...)
	case *types.Signature:
		return mentions(t.Params(), is) || mentions(t.Results(), is)
	case *types.Tuple:
		for v := range t.Variables() {
			if anyOf(v.Type()) {
				return true
			}
		}
		return false
	case *types.Map:
		return anyOf(t.Key(), t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		return anyOf(t.Elem())
	default:
		return false
	}
}

// goList returns the lines that go list prints at the module's root.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = "../.."
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// notPublic lists the modules of the workspace that have programs and tests only.
var notPublic = []string{"examples", "docs", "cmd", "bench", "adapter/watermill/brokertest"}

// load returns the public packages of all modules by their paths below the root. Only these and what they import are compiled: the programs
// below examples would take longer.
func load(t *testing.T) map[string]*types.Package {
	t.Helper()
	var public []string
	for _, path := range goList(t, module+"/...") {
		if !strings.Contains(path, "/internal/") && !slices.ContainsFunc(notPublic, func(dir string) bool { return strings.HasPrefix(path, module+"/"+dir) }) {
			public = append(public, path)
		}
	}
	files := map[string]string{}
	for _, line := range goList(t, append([]string{"-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, public...)...) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	packages := map[string]*types.Package{}
	for _, path := range public {
		pkg, err := imports.Import(path)
		require.NoError(t, err, path)
		packages[strings.TrimPrefix(path, module+"/")] = pkg
	}
	return packages
}
