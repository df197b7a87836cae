package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// unpublished are the directories of modules that have no version: nothing
// imports them.
var unpublished = []string{"bench", "docs", "examples", "internal", "adapter/watermill/brokertest"}

// module is one published module of the repository.
type module struct {
	Path string // its import path
	Dir  string // relative to the root of the repository, with slashes; empty for the root module
}

// tag returns the name of the tag by which the go command finds the version.
func (m module) tag(version string) string { return path.Join(m.Dir, version) }

// modules returns the published modules of the workspace at root, each after
// the modules that it requires.
func modules(root string) ([]module, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	files := map[string]*modfile.File{}
	var found []module
	for _, use := range work.Use {
		dir := path.Clean(use.Path)
		if slices.ContainsFunc(unpublished, func(u string) bool { return dir == u || strings.HasPrefix(dir, u+"/") }) {
			continue
		}
		f, err := readMod(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		m := module{f.Module.Mod.Path, strings.TrimPrefix(dir, ".")}
		files[m.Path] = f
		found = append(found, m)
	}
	return inOrder(found, files)
}

func readMod(dir string) (*modfile.File, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(file, text, nil)
}

// inOrder sorts modules so that each comes after the modules that it requires.
func inOrder(all []module, files map[string]*modfile.File) (sorted []module, err error) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(m module) error
	visit = func(m module) error {
		switch state[m.Path] {
		case done:
			return nil
		case visiting:
			return fmt.Errorf("module %s requires itself by way of others", m.Path)
		}
		state[m.Path] = visiting
		for _, r := range files[m.Path].Require {
			if k := slices.IndexFunc(all, func(other module) bool { return other.Path == r.Mod.Path }); k >= 0 {
				if err := visit(all[k]); err != nil {
					return err
				}
			}
		}
		state[m.Path] = done
		sorted = append(sorted, m)
		return nil
	}
	for _, m := range all {
		if err := visit(m); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

// pin has the module in dir require its siblings at the version, without
// replacements of them.
func pin(dir, version string, siblings []module) error {
	f, err := readMod(dir)
	if err != nil {
		return err
	}
	isSibling := func(p string) bool {
		return slices.ContainsFunc(siblings, func(m module) bool { return m.Path == p })
	}
	for _, r := range slices.Clone(f.Replace) {
		if !isSibling(r.Old.Path) {
			return fmt.Errorf("%s replaces %s: programs of this module could not be installed", f.Syntax.Name, r.Old.Path)
		}
		if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, r := range slices.Clone(f.Require) {
		if isSibling(r.Mod.Path) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	f.Cleanup()
	text, err := f.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644)
}

// packages returns the import paths of the packages of a module in a worktree:
// libraries that other modules may import, and programs.
func packages(ctx context.Context, worktree string, m module, env []string) (libraries, programs []string, err error) {
	out, err := run(ctx, filepath.Join(worktree, m.Dir), env, "go", "list", "-json=ImportPath,Name", "./...")
	if err != nil {
		return nil, nil, err
	}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var p struct{ ImportPath, Name string }
		if err := d.Decode(&p); err != nil {
			return nil, nil, err
		}
		switch {
		case slices.Contains(strings.Split(p.ImportPath, "/"), "internal"):
		case p.Name == "main":
			programs = append(programs, p.ImportPath)
		default:
			libraries = append(libraries, p.ImportPath)
		}
	}
	return libraries, programs, nil
}
