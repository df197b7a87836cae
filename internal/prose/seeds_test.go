package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// named matches a name of the code behind the directory of its package:
// `stage.Workers`, `controller/leda.PoolGroup.Add`.
var named = regexp.MustCompile("`([a-z][\\w/]*)\\.([A-Z]\\w*(?:\\.\\w+)?)`")

// figures are those of the documents, as docs/seeds.md names them. Figures 1 to
// 21 of R are in docs/crpc.md.
var figures = []string{
	"C 2.1", "C 2.2", "C 2.3", "C 2.4", "C 2.5", "C 3.1", "C 4.1", "C 5.1", "C 5.2", "C 5.3", "C 5.4",
	"E 3.1", "E 3.2", "E 3.3", "E 3.4", "E 3.5", "E 3.6", "E 3.7",
	"M A.1", "M A.2", "M A.3", "M A.4", "M A.5",
	"R 1 to 21",
	"A Listing 1", "A 3.2", "A 3.3",
}

func TestEachRowOfTheSeedsHasATestAndNamesThatExist(t *testing.T) {
	page := readPage(t, "docs", "seeds.md")
	for _, section := range sections(page) {
		for _, row := range rowsOf(section.text) {
			assert.Regexp(t, testNamed, row[len(row)-1], "%s: the row %q names no test", section.heading, row[0])
		}
	}
	names := named.FindAllStringSubmatch(page, -1)
	require.Greater(t, len(names), 70)
	known := map[string]map[string]bool{}
	for _, m := range names {
		if known[m[1]] == nil {
			known[m[1]] = declared(t, m[1])
		}
		assert.True(t, known[m[1]][m[2]], "package %s declares no %s", m[1], m[2])
	}
}

func TestNoFigureIsMissing(t *testing.T) {
	var here []string
	for _, row := range rowsOf(sectionOf(t, readPage(t, "docs", "seeds.md"), "Figures")) {
		document, numbers, _ := strings.Cut(row[0], " ")
		for number := range strings.SplitSeq(numbers, ", ") {
			here = append(here, document+" "+number)
		}
	}
	assert.ElementsMatch(t, figures, here)
}

func TestNoFigureOfCRPCIsMissing(t *testing.T) {
	var here []int
	for _, row := range rowsOf(sectionOf(t, readPage(t, "docs", "crpc.md"), "The figures")) {
		for number := range strings.SplitSeq(row[0], ", ") {
			n, err := strconv.Atoi(number)
			require.NoError(t, err, row[0])
			here = append(here, n)
		}
	}
	slices.Sort(here)
	for n := range 21 {
		assert.Contains(t, here, n+1)
	}
}

func TestNoControllerAndNoTableIsMissing(t *testing.T) {
	page := readPage(t, "docs", "seeds.md")
	controllers := firstCells(rowsOf(sectionOf(t, page, "Controllers")))
	require.Len(t, controllers, 7)
	for n, sections := range controllers {
		assert.Equal(t, fmt.Sprintf("3.%d, 4.%d", n+1, n+2), sections)
	}
	assert.Equal(t, []string{"5.1", "5.2", "5.3"}, firstCells(rowsOf(sectionOf(t, page, "Tables"))))
}

// The methods are those of the code, and those of the page that describes them.
func TestNoMethodOfLEDAIsMissing(t *testing.T) {
	var here, described []string
	for _, m := range named.FindAllStringSubmatch(sectionOf(t, readPage(t, "docs", "seeds.md"), "The methods of LEDA's interface"), -1) {
		here = append(here, m[2])
	}
	require.Len(t, here, 33)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(here))), 33, "a method is there twice")
	groups := regexp.MustCompile(`^(\w+)Group\.`)
	for _, row := range rowsOf(sectionOf(t, readPage(t, "docs", "leda.md"), "The 33 methods")) {
		method, _, _ := strings.Cut(strings.Trim(row[1], "`"), "(")
		if !strings.Contains(method, ".") {
			method = "Leda." + method
		}
		described = append(described, method)
	}
	for i, method := range here {
		here[i] = groups.ReplaceAllString(method, "$1.")
	}
	assert.Equal(t, described, here)
}

// declared returns what the Go files of a directory declare: names, and the
// methods and fields of types, as "Type.Name".
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "there is no package %s", dir)
	names := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			declare(names, d)
		}
	}
	return names
}

func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
				declareMembers(names, spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[name.Name] = true
				}
			}
		}
	}
}

func declareMembers(names map[string]bool, spec *ast.TypeSpec) {
	var members *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		return
	}
	for _, member := range members.List {
		for _, name := range member.Names {
			names[spec.Name.Name+"."+name.Name] = true
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
