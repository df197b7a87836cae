package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The project, as seen from this package.
const (
	module = "github.com/golda-dev/golda"
	root   = "../.."
)

// source is one Go file of a package.
type source struct {
	pkg  string // its directory, relative to the root of the project
	test bool
	file *ast.File
	fset *token.FileSet
}

// read parses all Go files of the project, for all operating systems.
func read(project fs.FS) ([]source, error) {
	var sources []source
	fset := token.NewFileSet()
	err := fs.WalkDir(project, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (foreign(d.Name()) || slices.Contains(outside, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(project, name)
		if err != nil {
			return err
		}
		s, err := parseFile(fset, name, text)
		sources = append(sources, s)
		return err
	})
	return sources, err
}

// foreign reports whether the go command ignores a directory.
func foreign(dir string) bool {
	return dir == "testdata" || dir == "vendor" || dir != "." && strings.ContainsAny(dir[:1], "._")
}

// outside lists the modules that are not part of the architecture: they measure
// Golda beside its peers, and test an adapter with the clients of brokers.
var outside = []string{"bench", "adapter/watermill/brokertest"}

func parseFile(fset *token.FileSet, name string, text []byte) (source, error) {
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	return source{
		pkg:  path.Dir(name),
		test: strings.HasSuffix(name, "_test.go"),
		file: file,
		fset: fset,
	}, err
}

// imports iterates over the import paths of the file and their positions.
func (s source) imports(yield func(path string, at token.Pos) bool) {
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(p, spec.Pos()) {
			return
		}
	}
}

// fault formats a message with its position.
func (s source) fault(at token.Pos, format string, args ...any) string {
	p := s.fset.Position(at)
	return fmt.Sprintf("%s:%d: ", p.Filename, p.Line) + fmt.Sprintf(format, args...)
}

// packagesOf lists the packages that have code besides tests.
func packagesOf(sources []source) []string {
	var packages []string
	for _, s := range sources {
		if !s.test {
			packages = append(packages, s.pkg)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}
