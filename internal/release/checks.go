package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// The tools, as go run takes them.
const (
	apidiff   = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4"
	cyclonedx = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
	vulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
)

// compare writes how the API of each module differs from the latest tag. An
// incompatible change needs another minor version (0.y) or major version.
func (r *release) compare(ctx context.Context) (err error) {
	file := filepath.Join(r.out, "api.txt")
	if r.latest == "" {
		return os.WriteFile(file, []byte("There is no version before "+r.version+".\n"), 0o644)
	}
	before := filepath.Join(r.cache, "before")
	if _, err := r.git(ctx, r.root, "worktree", "add", "--detach", before, r.latest); err != nil {
		return err
	}
	defer func() {
		_, removed := run(context.Background(), r.root, nil, "git", "worktree", "remove", "--force", before)
		err = errors.Join(err, removed)
	}()
	var report strings.Builder
	incompatible := false
	for _, m := range r.modules {
		fmt.Fprintf(&report, "%s\n", m.Path)
		if _, err := os.Stat(filepath.Join(before, m.Dir, "go.mod")); err != nil {
			fmt.Fprintf(&report, "\tnew\n")
			continue
		}
		exports := func(worktree, name string) (string, error) {
			file := filepath.Join(r.cache, name)
			_, err := r.tool(ctx, filepath.Join(worktree, m.Dir), apidiff, "-m", "-w", file, m.Path)
			return file, err
		}
		was, err := exports(before, "was")
		if err != nil {
			return err
		}
		is, err := exports(r.worktree, "is")
		if err != nil {
			return err
		}
		text, err := r.tool(ctx, r.worktree, apidiff, "-m", was, is)
		if err != nil {
			return err
		}
		incompatible = incompatible || strings.Contains(text, "Incompatible changes")
		for line := range strings.Lines(text) {
			report.WriteString("\t" + line)
		}
	}
	if err := os.WriteFile(file, []byte(report.String()), 0o644); err != nil {
		return err
	}
	if incompatible && compatible(r.latest, r.version) {
		return fmt.Errorf("users of %s would not compile with %s: see %s", r.latest, r.version, file)
	}
	return nil
}

// compatible reports whether a program of the earlier version must compile with
// the later one.
func compatible(earlier, later string) bool {
	if semver.Major(earlier) == "v0" {
		return semver.MajorMinor(earlier) == semver.MajorMinor(later)
	}
	return semver.Major(earlier) == semver.Major(later)
}

// licences permit use in any program. A licence that asks for the source of
// the program that it is linked into is not one of these.
var licences = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "Unlicense", "Zlib", "CC0-1.0", "BSL-1.0", "0BSD"}

// known are the licences of modules, by the beginning of their paths, that a
// person has read: the tool finds none in their files, or takes it for another.
var known = map[string]string{
	"golang.org/x/":           "BSD-3-Clause",
	"github.com/twmb/murmur3": "BSD-3-Clause",
}

func isKnown(path string) bool {
	for prefix := range known {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// materials writes a bill of materials of each module, and refuses a component
// without a licence, or with one that is not in the list.
func (r *release) materials(ctx context.Context) error {
	var faults []error
	for _, m := range r.modules {
		file := filepath.Join(r.out, strings.ReplaceAll(m.tag(r.version), "/", "-")+".cdx.json")
		if _, err := r.tool(ctx, filepath.Join(r.worktree, m.Dir), cyclonedx, "mod", "-json", "-licenses", "-output", file); err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := permitted(text, r.modules); err != nil {
			faults = append(faults, fmt.Errorf("module %s: %w", m.Path, err))
		}
	}
	return errors.Join(faults...)
}

// permitted checks the licences in a bill of materials. Siblings have the licence
// of the repository; for some modules a person has read it.
func permitted(bill []byte, siblings []module) error {
	var b struct {
		Components []struct {
			Name, Version string
			Evidence      struct {
				Licenses []struct{ License struct{ ID, Name string } }
			}
		}
	}
	if err := json.Unmarshal(bill, &b); err != nil {
		return err
	}
	var faults []error
	for _, c := range b.Components {
		if isKnown(c.Name) || slices.ContainsFunc(siblings, func(m module) bool { return m.Path == c.Name }) {
			continue
		}
		if len(c.Evidence.Licenses) == 0 {
			faults = append(faults, fmt.Errorf("no licence was found in %s %s", c.Name, c.Version))
		}
		for _, l := range c.Evidence.Licenses {
			if !slices.Contains(licences, l.License.ID) {
				faults = append(faults, fmt.Errorf("%s %s has the licence %q, which is not one of %s", c.Name, c.Version, l.License.ID+l.License.Name, strings.Join(licences, ", ")))
			}
		}
	}
	return errors.Join(faults...)
}

// vulnerabilities looks for published vulnerabilities that the code can reach.
func (r *release) vulnerabilities(ctx context.Context) error {
	file := filepath.Join(r.out, "vulnerabilities.txt")
	if r.offline {
		return os.WriteFile(file, []byte("not checked: -offline\n"), 0o644)
	}
	var report strings.Builder
	var faults []error
	for _, m := range r.modules {
		text, err := r.tool(ctx, filepath.Join(r.worktree, m.Dir), vulncheck, "./...")
		fmt.Fprintf(&report, "%s\n%s\n", m.Path, text)
		faults = append(faults, err)
	}
	return errors.Join(append(faults, os.WriteFile(file, []byte(report.String()), 0o644))...)
}

// tool runs a tool in a module of the release. The go command builds it with the
// user's settings: go run with a version takes no notice of the module in dir.
func (r *release) tool(ctx context.Context, dir, tool string, args ...string) (string, error) {
	bin := filepath.Join(r.cache, "bin")
	name, _, _ := strings.Cut(filepath.Base(tool), "@")
	if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
		if _, err := run(ctx, r.cache, []string{"GOBIN=" + bin, "GOWORK=off"}, "go", "install", tool); err != nil {
			return "", err
		}
	}
	return run(ctx, dir, r.env(ctx), filepath.Join(bin, name), args...)
}
