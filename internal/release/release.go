package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// release is the preparation of one version.
type release struct {
	version string
	root    string    // of the checkout
	main    string    // of the checkout that has the repository: root, unless that is a worktree
	out     string    // the directory of the results
	steps   io.Writer // gets a line for each step
	offline bool      // without the checks that need a database on the network

	worktree string // has the commit of the release
	cache    string // of modules: a release that is not published must not get into the user's
	proxy    proxy
	latest   string // the version before, empty if there is none
	modules  []module
	text     string // the release notes
}

// check refuses a version or a checkout of which no release can be made.
func (r *release) check(ctx context.Context) error {
	if semver.Canonical(r.version) != r.version || !semver.IsValid(r.version) || semver.Build(r.version) != "" {
		return fmt.Errorf("%q is no version such as v0.1.0", r.version)
	}
	if semver.Compare(r.version, "v2.0.0-0") >= 0 {
		return fmt.Errorf("%s: from v2 on each import path ends with the major version; first change the paths", r.version)
	}
	changed, err := r.git(ctx, r.root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("commit or remove these changes first:\n%s", changed)
	}
	tags, err := r.git(ctx, r.root, "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if semver.IsValid(tag) && semver.Compare(tag, r.latest) > 0 {
			r.latest = tag
		}
	}
	if semver.Compare(r.version, r.latest) <= 0 {
		return fmt.Errorf("%s is not later than the latest tag, %s", r.version, r.latest)
	}
	if r.modules, err = modules(r.root); err != nil {
		return err
	}
	for _, m := range r.modules {
		switch tags, err := r.git(ctx, r.root, "tag", "--list", m.tag(r.version)); {
		case err != nil:
			return err
		case tags != "":
			return fmt.Errorf("the tag %s exists", m.tag(r.version))
		}
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if r.text, err = notes(string(changelog), r.version); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "notes.md"), []byte(r.text), 0o644)
}

// commit makes the commit of the release in a worktree, and the proxy that has
// its modules. A module's hash in go.sum is the hash of its content in a commit,
// and a module's go.sum has the hashes of the siblings that it requires. So there
// is a commit for each module in turn; at the end one commit takes their place.
func (r *release) commit(ctx context.Context) error {
	if _, err := r.git(ctx, r.root, "worktree", "add", "--detach", r.worktree, "HEAD"); err != nil {
		return err
	}
	base, err := r.git(ctx, r.worktree, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	for _, m := range r.modules {
		dir := filepath.Join(r.worktree, m.Dir)
		if err := pin(dir, r.version, r.modules); err != nil {
			return err
		}
		if _, err := run(ctx, dir, r.env(ctx), "go", "mod", "tidy"); err != nil {
			return err
		}
		if _, err := r.git(ctx, r.worktree, "add", "--all"); err != nil { // also a go.sum that is new
			return err
		}
		if _, err := r.git(ctx, r.worktree, "commit", "--quiet", "--allow-empty", "--message", m.Path); err != nil {
			return err
		}
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return err
		}
		head, err := r.git(ctx, r.worktree, "rev-parse", "HEAD")
		if err != nil {
			return err
		}
		if err := r.proxy.add(r.main, strings.TrimSpace(head), m, r.version, mod); err != nil {
			return err
		}
	}
	if _, err := r.git(ctx, r.worktree, "reset", "--quiet", "--soft", strings.TrimSpace(base)); err != nil {
		return err
	}
	if _, err := r.git(ctx, r.worktree, "commit", "--quiet", "--allow-empty", "--message", "release "+r.version); err != nil {
		return err
	}
	head, err := r.git(ctx, r.worktree, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	return r.same(strings.TrimSpace(head))
}

// same checks that the modules of a commit are the modules in the proxy.
func (r *release) same(commit string) error {
	again := proxy{filepath.Join(r.cache, "again")}
	defer func() { _ = os.RemoveAll(again.dir) }()
	for _, m := range r.modules {
		if err := again.add(r.main, commit, m, r.version, nil); err != nil {
			return err
		}
		before, err := r.proxy.hash(m, r.version)
		if err != nil {
			return err
		}
		after, err := again.hash(m, r.version)
		if err != nil {
			return err
		}
		if before != after {
			return fmt.Errorf("module %s has another content in the commit of the release than when others were made to require it", m.Path)
		}
	}
	return nil
}

// use uses the modules as a user will: it installs their programs, and builds
// a program that imports all their packages.
func (r *release) use(ctx context.Context) error {
	dir := filepath.Join(r.cache, "user")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	env := append(r.env(ctx), "GOBIN="+filepath.Join(dir, "bin"))
	if _, err := run(ctx, dir, env, "go", "mod", "init", "example.org/user"); err != nil {
		return err
	}
	program := "package main\n\nimport (\n"
	for _, m := range r.modules {
		libraries, programs, err := packages(ctx, r.worktree, m, r.env(ctx))
		if err != nil {
			return err
		}
		for _, p := range programs {
			if _, err := run(ctx, dir, env, "go", "install", p+"@"+r.version); err != nil {
				return err
			}
		}
		if len(libraries) == 0 {
			continue
		}
		if _, err := run(ctx, dir, env, "go", "get", m.Path+"@"+r.version); err != nil {
			return err
		}
		for _, p := range libraries {
			program += fmt.Sprintf("\t_ %q\n", p)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program+")\n\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	_, err := run(ctx, dir, env, "go", "build", "-o", os.DevNull, ".")
	return err
}

// tag sets the tags of the release in the repository.
func (r *release) tag(ctx context.Context) error {
	for _, m := range r.modules {
		message := filepath.Join(r.cache, "message") // the notes may be longer than an argument
		if err := os.WriteFile(message, []byte(m.tag(r.version)+"\n\n"+r.text), 0o600); err != nil {
			return err
		}
		if _, err := r.git(ctx, r.worktree, "tag", "--annotate", "--file", message, "--cleanup", "verbatim", m.tag(r.version), "HEAD"); err != nil {
			return err
		}
	}
	return nil
}

// tags returns the names of all tags of the release.
func (r *release) tags() (all []string) {
	for _, m := range r.modules {
		all = append(all, m.tag(r.version))
	}
	return all
}

// close removes the worktree. The commit stays if it has tags.
func (r *release) close() error {
	// A cancelled run must clean up, too.
	_, err := run(context.Background(), r.root, nil, "git", "worktree", "remove", "--force", r.worktree)
	if _, missing := os.Stat(r.worktree); missing != nil {
		err = nil
	}
	_, clean := run(context.Background(), r.root, []string{"GOMODCACHE=" + filepath.Join(r.cache, "modules")}, "go", "clean", "-modcache") // its files are read-only
	return errors.Join(err, clean, os.RemoveAll(r.cache))
}

func (r *release) git(ctx context.Context, dir string, args ...string) (string, error) {
	return run(ctx, dir, nil, "git", args...)
}

// env returns the environment in which the go command finds the modules of the
// release before they are published, and other modules in the user's cache.
func (r *release) env(ctx context.Context) []string {
	env := map[string]string{"GOPROXY": "https://proxy.golang.org,direct", "GOMODCACHE": ""}
	for name := range env {
		if value, err := run(ctx, r.root, nil, "go", "env", name); err == nil {
			env[name] = strings.TrimSpace(value)
		}
	}
	env["GOPROXY"] = strings.Join([]string{"file://" + r.proxy.dir, "file://" + filepath.Join(env["GOMODCACHE"], "cache", "download"), env["GOPROXY"]}, ",")
	env["GOMODCACHE"] = filepath.Join(r.cache, "modules")
	env["GOWORK"], env["GOFLAGS"] = "off", "-mod=mod"
	env["GONOSUMDB"] = r.modules[0].Path + "," + path.Join(r.modules[0].Path, "*")
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}
