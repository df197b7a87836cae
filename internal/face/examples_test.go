package face

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown lists the packages whose examples are a manual: each function is in one.
var shown = []string{
	"behaviour", "stage", "stage/route", "pipeline", "pipeline/letters", "pipeline/bottleneck", "pipeline/tap", "source", "reexec", "window/event", "supervisor", "adapter/failsafe", "adapter/http", "adapter/nats", "adapter/nats/fleet", "adapter/prometheus", "adapter/watermill",
	"controller/simulator", "controller/race", "controller/lab",
}

// alike are functions that differ from one that is shown in their parameters only.
var alike = map[string]string{
	"failsafe.WrapSink": "failsafe.Wrap",
	"stagehttp.Run":     "stagehttp.Serve",
	"stagehttp.Do":      "stagehttp.Post",
}

func TestEachFunctionOfAPackageForUsersIsInAnExample(t *testing.T) {
	packages := load(t)
	for _, path := range shown {
		pkg := packages[path]
		require.NotNil(t, pkg, path)
		used := usedInExamples(t, path)
		for _, o := range exported(pkg) {
			name := pkg.Name() + "." + o.Name()
			if _, ok := o.(*types.Func); !ok || used[name] {
				continue
			}
			assert.True(t, used[alike[name]], "no example of package %s has %s", path, name)
		}
	}
}

// usedInExamples returns what the files of a package that have examples name, as "package.Name".
func usedInExamples(t *testing.T, path string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", path, "*_test.go"))
	require.NoError(t, err)
	used := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		names := aliases(f)
		if !hasExample(f) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[names[x.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	return used
}

func hasExample(f *ast.File) bool {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
			return true
		}
	}
	return false
}

// aliases returns the names of the packages that a file imports by the names that it gives them.
func aliases(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, i := range f.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if path == module+"/adapter/http" {
			name = "stagehttp"
		}
		if i.Name != nil {
			names[i.Name.Name] = name
		} else {
			names[name] = name
		}
	}
	return names
}
