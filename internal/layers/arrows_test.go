package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files is the order of the files within a package, from the bottom up: a file should use only what files before it declare.
// The number after a package is how many arrows may run upwards. An arrow is an ordered pair of files of which the first uses
// a package-level name, a field or a method that the second declares. Numbers may only fall.
const files = `
internal/inbox: 10
	config phase waiting delayed inbox member waiters
	state effects available key_places slots park shared_pool
	book batches mishap entry lapsed submit offer handover
	instances turn workers visit accounts settings drain doc

internal/pool: 2
	set instances tokens binding route pool inspect doc

internal/line: 2
	permit rank ring lane part accounts line guarded guarded_profile guarded_line fifo ranked lane_table lane_set lanes lane_rates lane_places lane_holds lane_parks fair fair_holds sequence hottest inspect

worker: 8
	hang stage fate emit_wait watchdog
	outbox outgoing emits in_order progress
	worker instance
	deliver emit begin settle
	run run_emit executors
	actor crash suspension report stuck abandon
	loop doc

pipeline: 0
	lifecycle part checkpoint pools letters_kept
	feed feeding feeds place passage check
	accounts pipeline ending snapshot flight report draw notify
	new forget stages rewire states drain stop start operated doc

internal/control: 1
	knobs state group events cpu decided loop observe
	view reconcile policies operate stalls actor

internal/engine: 1
	made spec pool core relay endpoint broken crash_history suspend upgrade
	pool_supervisor stuck doc

internal/letters: 0
	file letter kind json codec disk slot size kept slots store open transfer subscriber notifier

stage: 2
	errors overload middleware option option_wiring option_workers option_queue option_time fair option_failures
	origin deadline suspend letter guard instance snapshot check
	stage call results flow flow_of keyed_recent keyed_instances keyed_state keyed upgrading doc
`

func TestAFileUsesTheFilesBeforeIt(t *testing.T) {
	orders := parseFiles(files)
	open := exportData(t, orders)
	for _, p := range orders {
		t.Run(p.pkg, func(t *testing.T) {
			used, all := arrows(t, p.pkg, open)
			require.ElementsMatch(t, all, p.files, "name each file of the package once")
			var up []string
			for _, a := range slices.SortedFunc(maps.Keys(used), func(a, b arrow) int { return cmp.Compare(a.String(), b.String()) }) {
				if slices.Index(p.files, a.from) < slices.Index(p.files, a.to) {
					up = append(up, fmt.Sprintf("%s: %s", a, used[a]))
				}
			}
			t.Logf("%d of %d arrows run upwards, %d may:\n%s", len(up), len(used), p.may, strings.Join(up, "\n"))
			switch {
			case len(up) > p.may:
				t.Errorf("%d arrows run upwards and %d may", len(up), p.may)
			case len(up) < p.may:
				t.Errorf("%d arrows run upwards: lower the number from %d", len(up), p.may)
			}
		})
	}
}

// order is the entry of one package in files.
type order struct {
	pkg   string
	may   int
	files []string
}

// parseFiles parses a text in the form of files.
func parseFiles(text string) (orders []order) {
	for line := range strings.Lines(text) {
		if pkg, may, ok := strings.Cut(line, ":"); ok {
			orders = append(orders, order{pkg: pkg})
			_, _ = fmt.Sscan(may, &orders[len(orders)-1].may)
		} else if len(orders) > 0 {
			last := &orders[len(orders)-1]
			last.files = append(last.files, strings.Fields(line)...)
		}
	}
	return orders
}

// arrow says that a file of a package uses another one.
type arrow struct{ from, to string }

func (a arrow) String() string { return a.from + " uses " + a.to }

// arrows returns the arrows of a package, each with one of the names by which it exists, and the files of the package.
func arrows(t *testing.T, pkg string, open importer.Lookup) (found map[arrow]string, names []string) {
	t.Helper()
	fset := token.NewFileSet()
	dir, err := build.ImportDir(filepath.Join(root, pkg), 0)
	require.NoError(t, err)
	var parsed []*ast.File
	for _, name := range dir.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, f)
		names = append(names, strings.TrimSuffix(name, ".go"))
	}
	uses := map[*ast.Ident]types.Object{}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	checked, err := config.Check(module+"/"+pkg, fset, parsed, &types.Info{Uses: uses})
	require.NoError(t, err)
	file := func(at token.Pos) string { return strings.TrimSuffix(filepath.Base(fset.Position(at).Filename), ".go") }
	found = map[arrow]string{}
	for ident, used := range uses {
		field, isVar := used.(*types.Var)
		_, isFunc := used.(*types.Func)
		if used.Pkg() != checked || used.Parent() != checked.Scope() && !isFunc && (!isVar || !field.IsField()) {
			continue // of another package, or local
		}
		if a := (arrow{file(ident.Pos()), file(used.Pos())}); a.from != a.to && (found[a] == "" || used.Name() < found[a]) {
			found[a] = used.Name()
		}
	}
	return found, names
}

// exportData returns a function that opens the export data of the packages and of all that they import. No other package is compiled:
// the programs below examples would take longer than the rest.
func exportData(t *testing.T, orders []order) importer.Lookup {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, o := range orders {
		args = append(args, "./"+o.pkg)
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}
