package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNotesOfAVersionAreItsSectionOfTheChangelog(t *testing.T) {
	changelog := "# Changelog\n\n## [Unreleased]\n\nmore\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- two\n\n## [0.1.0] - 2026-11-01\n\n- one\n"
	got, err := notes(changelog, "v0.2.0")
	require.NoError(t, err)
	require.Equal(t, "### Added\n\n- two\n", got)
	got, err = notes(changelog, "v0.1.0")
	require.NoError(t, err)
	require.Equal(t, "- one\n", got)
	_, err = notes(changelog, "v0.3.0")
	require.ErrorContains(t, err, `no section "## [0.3.0]"`)
	_, err = notes("## [0.3.0]\n\n## [0.2.0]\n", "v0.3.0")
	require.ErrorContains(t, err, "empty section")
}

func TestAProgramMustCompileWithALaterVersionOfTheSameMinorBefore1(t *testing.T) {
	for _, c := range []struct {
		earlier, later string
		want           bool
	}{
		{"v0.1.0", "v0.1.1", true}, {"v0.1.9", "v0.2.0", false}, {"v0.9.0", "v1.0.0", false}, {"v1.0.0", "v1.1.0", true}, {"v1.0.0", "v1.0.1", true},
	} {
		require.Equal(t, c.want, compatible(c.earlier, c.later), "%s to %s", c.earlier, c.later)
	}
}

func TestAComponentWithoutAPermittedLicenceIsNamed(t *testing.T) {
	bill := func(components string) []byte { return []byte(`{"components": [` + components + `]}`) }
	with := func(name, id string) string {
		return fmt.Sprintf(`{"name": %q, "version": "v1.0.0", "evidence": {"licenses": [{"license": {"id": %q}}]}}`, name, id)
	}
	siblings := []module{{Path: "example.org/own"}}
	require.NoError(t, permitted(bill(with("a", "MIT")+","+with("b", "Apache-2.0")+`,{"name": "example.org/own"}`), siblings))
	err := permitted(bill(with("a", "MIT")+","+with("example.org/b", "GPL-3.0-only")), siblings)
	require.ErrorContains(t, err, `example.org/b v1.0.0 has the licence "GPL-3.0-only"`)
	err = permitted(bill(`{"name": "example.org/c", "version": "v2.0.0"}`), siblings)
	require.ErrorContains(t, err, "no licence was found in example.org/c v2.0.0")
	require.NoError(t, permitted([]byte(`{"components": [{"name": "golang.org/x/mod"}]}`), nil), "a person has read it")
	require.Error(t, permitted([]byte("{"), siblings))
}

// repository is one with a root module, a module that requires it, a program that
// requires both, and a module that is not published.
func repository(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("LICENSE", "MIT License\n")
	write("CHANGELOG.md", "# Changelog\n\n## [0.1.0]\n\n# not a comment of git\n\n- all of it\n"+strings.Repeat("- and more\n", 1<<14))
	write(".gitignore", "/out/\n")
	write("go.work", "go 1.26.0\n\nuse (\n\t.\n\t./bench\n\t./cmd/own\n\t./adapter/x\n)\n")
	write("go.mod", "module example.org/own\n\ngo 1.26.0\n")
	write("own.go", "package own\n\nconst N = 7\n")
	write("internal/hidden/hidden.go", "package hidden\n")
	write("adapter/x/go.mod", "module example.org/own/adapter/x\n\ngo 1.26.0\n\nreplace example.org/own => ../..\n\nrequire example.org/own v0.0.0\n")
	write("adapter/x/x.go", "package x\n\nimport \"example.org/own\"\n\nconst N = own.N\n")
	write("cmd/own/go.mod", "module example.org/own/cmd/own\n\ngo 1.26.0\n\nreplace (\n\texample.org/own => ../..\n\texample.org/own/adapter/x => ../../adapter/x\n)\n\nrequire (\n\texample.org/own v0.0.0 // indirect\n\texample.org/own/adapter/x v0.0.0\n)\n")
	write("cmd/own/main.go", "package main\n\nimport \"example.org/own/adapter/x\"\n\nfunc main() { println(x.N) }\n")
	write("bench/go.mod", "module example.org/own/bench\n\ngo 1.26.0\n\nreplace example.org/own => ../\n\nrequire example.org/own v0.0.0\n")
	write("bench/bench.go", "package bench\n\nimport _ \"example.org/own\"\n")
	git = func(args ...string) string {
		out, err := run(t.Context(), dir, nil, "git", args...)
		require.NoError(t, err)
		return strings.TrimSpace(out)
	}
	git("init", "--quiet", "--initial-branch", "main")
	git("config", "user.name", "a test")
	git("config", "user.email", "test@example.org")
	git("add", "--all")
	git("commit", "--quiet", "--message", "all")
	return dir, git
}

// prepared is a release of the repository in dir, up to the checks that need tools.
func prepared(t *testing.T, dir, version string) (*release, error) {
	t.Helper()
	cache := t.TempDir()
	r := &release{
		version: version, root: dir, main: dir, out: t.TempDir(), steps: t.Output(),
		cache: cache, worktree: filepath.Join(cache, "worktree"), proxy: proxy{filepath.Join(cache, "proxy")},
	}
	t.Cleanup(func() { require.NoError(t, r.close()) })
	if err := r.check(t.Context()); err != nil {
		return r, err
	}
	for _, step := range []func(context.Context) error{r.commit, r.use, r.tag} {
		if err := step(t.Context()); err != nil {
			return r, err
		}
	}
	return r, nil
}

func TestAReleaseHasATagForEachPublishedModuleAndCanBeInstalled(t *testing.T) {
	t.Setenv("GOPROXY", "off") // beside the proxy of the release
	dir, git := repository(t)
	before := git("rev-parse", "HEAD")
	r, err := prepared(t, dir, "v0.1.0")
	require.NoError(t, err)
	require.Equal(t, []string{"v0.1.0", "adapter/x/v0.1.0", "cmd/own/v0.1.0"}, r.tags())
	require.Equal(t, "adapter/x/v0.1.0\ncmd/own/v0.1.0\nv0.1.0", git("tag", "--list"))
	require.Equal(t, before, git("rev-parse", "HEAD"), "the branch is unchanged")
	require.Equal(t, before, git("rev-parse", "v0.1.0^"))
	require.Equal(t, git("rev-parse", "v0.1.0^{}"), git("rev-parse", "cmd/own/v0.1.0^{}"))
	require.Contains(t, git("tag", "--list", "--format=%(contents)", "v0.1.0"), "# not a comment of git\n\n- all of it")
	mod := git("show", "v0.1.0:cmd/own/go.mod")
	require.Contains(t, mod, "example.org/own/adapter/x v0.1.0")
	require.NotContains(t, mod, "replace")
	require.Contains(t, git("show", "v0.1.0:cmd/own/go.sum"), "example.org/own/adapter/x v0.1.0 h1:")
	require.Contains(t, git("show", "v0.1.0:bench/go.mod"), "replace", "what is not published stays as it is")
	out, err := run(t.Context(), t.TempDir(), nil, filepath.Join(r.cache, "user", "bin", "own"))
	require.NoError(t, err)
	require.Empty(t, out) // println prints to standard error
}

func TestAReleaseIsRefusedBeforeItHasChangedAnything(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		change  func(dir string, git func(...string) string)
		want    string
	}{
		"no version":                        {"0.1.0", nil, "is no version such as v0.1.0"},
		"a short version":                   {"v0.1", nil, "is no version such as v0.1.0"},
		"a major version without its paths": {"v2.0.0", nil, "first change the paths"},
		"no notes":                          {"v0.2.0", nil, `no section "## [0.2.0]"`},
		"an earlier version":                {"v0.1.0", func(_ string, git func(...string) string) { git("tag", "v0.3.0") }, "not later than the latest tag, v0.3.0"},
		"a tag of one module":               {"v0.1.0", func(_ string, git func(...string) string) { git("tag", "adapter/x/v0.1.0") }, "the tag adapter/x/v0.1.0 exists"},
		"changes that are not committed": {"v0.1.0", func(dir string, _ func(...string) string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "new.go"), []byte("package own\n"), 0o644))
		}, "new.go"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, git := repository(t)
			if c.change != nil {
				c.change(dir, git)
			}
			before := git("show-ref")
			_, err := prepared(t, dir, c.version)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, before, git("show-ref"))
		})
	}
}

func TestModulesComeAfterTheOnesThatTheyRequire(t *testing.T) {
	all, err := modules(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.Empty(t, all[0].Dir, "the root module requires no sibling")
	for _, m := range all {
		require.NotContains(t, m.Dir, "bench")
		require.NotContains(t, m.Dir, "examples")
	}
}
