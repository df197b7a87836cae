package portable

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A listed package is one that go list -json prints.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	ImportMap  map[string]string
	Imports    []string
	DepOnly    bool
	Module     *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

func TestAllPackagesCompileForWindows(t *testing.T) {
	for _, err := range check(t, "windows", "amd64") {
		t.Error(err)
	}
}

// The other test proves little if the checker is lenient.
func TestAPackageThatDoesNotCompileIsReported(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/a\n\ngo 1.26\n")
	write("a.go", "package a\n\nfunc f() int { return g }\n")
	write("a_linux.go", "package a\n\nvar g = 1\n")
	t.Chdir(dir)
	require.Empty(t, check(t, "linux", "amd64"))
	errs := check(t, "windows", "amd64")
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "a.go:3:23: undefined: g")
}

// check type-checks all packages and tests of the workspace or module here for
// a system and returns the errors.
func check(t *testing.T, system, arch string) []error {
	t.Helper()
	c := checker{
		files: token.NewFileSet(), sizes: types.SizesFor("gc", arch),
		done: map[string]func() (*types.Package, error){"unsafe": func() (*types.Package, error) { return types.Unsafe, nil }},
	}
	modules, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/...").Output()
	require.NoError(t, err)
	args := append([]string{"list", "-deps", "-test", "-e", "-json"}, strings.Fields(string(modules))...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	var own []string
	for decode := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decode.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // one is built in, the main function of a test is generated
		}
		c.done[p.ImportPath] = sync.OnceValues(func() (*types.Package, error) { return c.compile(p) })
		if !p.DepOnly {
			own = append(own, p.ImportPath)
		}
	}
	require.NotEmpty(t, own)
	return c.all(own)
}

// A checker type-checks each package once, after those that it imports.
type checker struct {
	files *token.FileSet
	sizes types.Sizes
	done  map[string]func() (*types.Package, error)
}

func (c *checker) all(paths []string) []error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		turns = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for _, path := range paths {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if _, err := c.done[path](); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errs
}

func (c *checker) compile(p listed) (*types.Package, error) {
	if p.Error != nil {
		return nil, errors.New(p.Error.Err)
	}
	parsed := make([]*ast.File, len(p.GoFiles))
	for i, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed[i] = f
	}
	config := types.Config{
		Importer:         importer{c, p.ImportMap},
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.DepOnly,
		FakeImportC:      true,
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // without the test that it is compiled for
	return config.Check(path, c.files, parsed, nil)
}

// An importer finds the packages that one package imports.
type importer struct {
	*checker
	renamed map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if to, ok := i.renamed[path]; ok {
		path = to
	}
	done, ok := i.done[path]
	if !ok {
		return nil, errors.New("go list did not name " + path)
	}
	return done()
}
