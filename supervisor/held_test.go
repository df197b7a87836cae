package supervisor_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/supervisor"
)

const table = "../docs/supervision.md"

// held marks a test as one that the table names.
func held(t *testing.T) { supervisor.Ran.Store(t.Name(), true) }

// audited runs the tests, and then checks that every test that the table names has run.
type audited struct{ m *testing.M }

func (a audited) Run() int {
	code := a.m.Run()
	if code != 0 || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" ||
		flag.Lookup("test.list").Value.String() != "" {
		return code
	}
	rows, err := rowsOf(table)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, r := range rows {
		if _, ok := supervisor.Ran.Load(r.test); !ok && r.pkg == "" {
			fmt.Fprintf(os.Stderr, "%s: %s did not run\n", table, r.test)
			code = 1
		}
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(audited{m}) }

// row is a test that the table names; pkg is its package, empty for this one.
type row struct{ test, pkg string }

var testName = regexp.MustCompile("`(?:([a-z/]+): )?(Test[A-Za-z0-9]+)`")

// rowsOf returns the tests that the rows of a table name. A row that names no test is an error.
func rowsOf(file string) (rows []row, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	inTable := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "|---"):
			inTable = true
			continue
		case !strings.HasPrefix(line, "|"):
			inTable = false
		}
		if !inTable {
			continue
		}
		found := testName.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: a row without a test: %s", file, line)
		}
		for _, m := range found {
			rows = append(rows, row{pkg: m[1], test: m[2]})
		}
	}
	return rows, nil
}

// testsIn returns the names of a package's tests.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

func TestEveryRowOfTheTableNamesAnExistingTest(t *testing.T) {
	rows, err := rowsOf(table)
	require.NoError(t, err)
	require.Greater(t, len(rows), 50)
	tests := map[string]map[string]bool{}
	for _, r := range rows {
		if tests[r.pkg] == nil {
			dir := "."
			if r.pkg != "" {
				dir = filepath.Join("..", r.pkg)
			}
			tests[r.pkg] = testsIn(t, dir)
		}
		assert.True(t, tests[r.pkg][r.test], "%s: %s", r.pkg, r.test)
	}
}
