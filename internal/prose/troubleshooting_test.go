package prose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sentinel matches the names of errors that are values.
var sentinel = regexp.MustCompile(`^Err[A-Z]\w*$`)

func TestEachExportedErrorHasAnEntry(t *testing.T) {
	page := readPage(t, "docs", "troubleshooting.md")
	errors := 0
	for _, dir := range publicPackages(t) {
		for name := range declared(t, dir) {
			if sentinel.MatchString(name) || isErrorType(t, dir, name) {
				errors++
				assert.Contains(t, page, "`"+dir+"."+name+"`", "docs/troubleshooting.md: what is to be done about it?")
			}
		}
	}
	require.Greater(t, errors, 80)
}

// An entry about an error that is not there any more misleads.
func TestEachEntryIsAboutAnErrorThatExists(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, section := range sections(readPage(t, "docs", "troubleshooting.md")) {
		for _, row := range rowsOf(section.text) {
			for _, m := range named.FindAllStringSubmatch(row[0], -1) {
				if known[m[1]] == nil {
					known[m[1]] = declared(t, m[1])
				}
				assert.True(t, known[m[1]][m[2]], "package %s declares no %s", m[1], m[2])
			}
		}
	}
}

func TestEachWarningAndErrorOfTheLogHasAnEntry(t *testing.T) {
	page := readPage(t, "docs", "troubleshooting.md")
	lines := logLines(t)
	require.Greater(t, len(lines), 50)
	for _, line := range lines {
		assert.Contains(t, page, "`"+line+"`", "docs/troubleshooting.md: what is to be done about this line of the log?")
	}
}

// isErrorType reports whether a name is that of a type of errors.
func isErrorType(t *testing.T, dir, name string) bool {
	t.Helper()
	if !regexp.MustCompile(`^[A-Z]\w*Error$`).MatchString(name) {
		return false
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return regexp.MustCompile(`(?m)^type ` + name + `\b`).Match(text)
	})
}

// programs have a log of their own, which is not Golda's.
var programs = []string{"bench", "examples", "docs", "cmd", "internal/nodetest", "stage/stagetest"}

// logLines returns the texts that the project logs as warnings and errors.
func logLines(t *testing.T) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch name = filepath.ToSlash(name); {
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || slices.Contains(programs, name)):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				lines = append(lines, logged(n)...)
			case *ast.CompositeLit:
				lines = append(lines, limited(n)...)
			}
			return true
		})
		return nil
	}))
	return lines
}

// limited returns the text of a kind of lines that are bounded in number, unless
// these are for information.
func limited(kind *ast.CompositeLit) (text []string) {
	for _, e := range kind.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := field.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Level":
			if level, ok := field.Value.(*ast.SelectorExpr); ok && level.Sel.Name == "LevelInfo" {
				return nil
			}
		case key.Name == "Message":
			if line, ok := joined(field.Value); ok {
				text = append(text, line)
			}
		}
	}
	return text
}

// logged returns the text of a call that logs a warning or an error.
func logged(call *ast.CallExpr) (text []string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	at := 0
	switch method.Sel.Name {
	case "Warn", "Error", "warn", "report":
	case "WarnContext", "ErrorContext":
		at = 1
	default:
		return nil
	}
	if at >= len(call.Args) {
		return nil
	}
	if line, ok := joined(call.Args[at]); ok {
		return []string{line}
	}
	return nil
}

// joined returns a literal text, up to the first part that is computed.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := joined(e.X)
		if right, more := joined(e.Y); more {
			left += right
		}
		return left, ok
	}
	return "", false
}
