package floors

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

// The house, as its own tests see it.
const (
	module = "github.com/golda-dev/golda"
	root   = "../.."
)

// source is one Go file of a room.
type source struct {
	room string // its directory, from the root of the house
	test bool
	file *ast.File
	fset *token.FileSet
}

// read parses all Go files of the house, whatever system they are built for.
func read(house fs.FS) ([]source, error) {
	var sources []source
	fset := token.NewFileSet()
	err := fs.WalkDir(house, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (foreign(d.Name()) || otherModule(house, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(house, name)
		if err != nil {
			return err
		}
		s, err := parseFile(fset, name, text)
		sources = append(sources, s)
		return err
	})
	return sources, err
}

// foreign reports whether the go command would not look into a directory.
func foreign(dir string) bool {
	return dir == "testdata" || dir == "vendor" || dir != "." && strings.ContainsAny(dir[:1], "._")
}

// otherModule reports whether a directory is a module of its own: it is a neighbour, not a
// room, and may have guests of its own.
func otherModule(house fs.FS, dir string) bool {
	_, err := fs.Stat(house, path.Join(dir, "go.mod"))
	return dir != "." && err == nil
}

func parseFile(fset *token.FileSet, name string, text []byte) (source, error) {
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	return source{
		room: path.Dir(name),
		test: strings.HasSuffix(name, "_test.go"),
		file: file,
		fset: fset,
	}, err
}

// imports are the paths that the file imports, and where.
func (s source) imports(yield func(path string, at token.Pos) bool) {
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(p, spec.Pos()) {
			return
		}
	}
}

// fault is a message with its place in front.
func (s source) fault(at token.Pos, format string, args ...any) string {
	p := s.fset.Position(at)
	return fmt.Sprintf("%s:%d: ", p.Filename, p.Line) + fmt.Sprintf(format, args...)
}

// roomsOf lists the rooms that have code besides tests.
func roomsOf(sources []source) []string {
	var rooms []string
	for _, s := range sources {
		if !s.test {
			rooms = append(rooms, s.room)
		}
	}
	slices.Sort(rooms)
	return slices.Compact(rooms)
}
