package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/examples/internal/show"
)

// prepare makes the directories that are written to, and says so now if that can't
// be done, before any work. Then it leaves none behind.
func (c config) prepare(box *outbox) error {
	var made []string
	for _, d := range c.written() {
		made = append(absent(d.path), made...) // those below before those above
		if err := c.open(d, box); err != nil {
			for _, dir := range made {
				_ = os.Remove(dir) // it was not made, or is empty again
			}
			return err
		}
	}
	return nil
}

func (c config) open(d folder, box *outbox) error {
	if err := c.apart(d); err != nil {
		return err
	}
	return d.open(box)
}

// folder is a directory that is written to, and the option that named it.
type folder struct{ option, path string }

func (c config) written() []folder {
	var all []folder
	if c.in == "" {
		all = append(all, folder{"-captchas", c.captchas})
	}
	for _, dir := range c.outs() {
		all = append(all, folder{"-out", dir})
	}
	return all
}

// outs are the directories that images are written to: one for each policy that is
// compared.
func (c config) outs() []string {
	if c.policies == nil {
		return []string{c.out}
	}
	dirs := make([]string, len(c.policies))
	for i, law := range c.policies {
		dirs[i] = c.outOf(law)
	}
	return dirs
}

// outOf is a policy's own directory. Names of files should have no colon, and no
// policy's name has an underscore.
func (c config) outOf(law controller.Policy) string {
	return filepath.Join(c.out, strings.ReplaceAll(law.Name(), ":", "_"))
}

// apart refuses to write into the directory that is read from: a.png would be
// written over itself.
func (c config) apart(d folder) error {
	if c.in == "" {
		return nil
	}
	in, err := os.Stat(c.in)
	if err != nil {
		return fmt.Errorf("-in: %w", err)
	}
	out, err := os.Stat(d.path)
	return show.Fault(err == nil && os.SameFile(in, out), "%s: %s is the same directory as -in", d.option, d.path)
}

// absent returns a directory and those above it, as far as they are not there.
func absent(dir string) (list []string) {
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

// open makes the directory if need be, and tries to write a file.
func (d folder) open(box *outbox) error {
	if err := permitted(d.path); err != nil {
		return fmt.Errorf("%s: %w", d.option, err)
	}
	if err := os.MkdirAll(d.path, 0o777); err != nil {
		return fmt.Errorf("%s: %w", d.option, err)
	}
	probe, err := box.create(d.path)
	if err != nil {
		return fmt.Errorf("%s: %w", d.option, err)
	}
	defer box.forget(probe.Name())
	return probe.Close()
}

// permitted looks at the directory, or the nearest one above it that exists:
// is it one, and may anybody write to it? The superuser could write anyway, but
// who has locked a directory did not want that.
func permitted(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		case err == nil:
			return show.Fault(info.Mode().Perm()&0o222 == 0, "%s is read-only", dir)
		case filepath.Dir(dir) == dir:
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// listed returns the names of the files in a directory, at most n of them if n is not 0,
// in alphabetical order. What is in it is taken as an image, whatever its name:
// the load stage tells what is none. Directories are left out, and so are hidden files,
// which are not meant for us.
func listed(dir string, n int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("-in: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !isDir(dir, e) {
			names = append(names, e.Name())
		}
	}
	if n > 0 && len(names) > n {
		names = names[:n]
	}
	return names, show.Fault(len(names) == 0, "-in: there are no files in %s", dir)
}

// isDir follows symbolic links.
func isDir(dir string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// outNames gives each image the name of its PNG file: its base name, a.jpg
// becoming a.png. Images that would share one keep their extension as well, so that
// a.jpg and a.gif become a.jpg.png and a.gif.png and none is lost. Names that
// differ in upper and lower case only are the same, as on many file systems.
func outNames(files []string) []string {
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(file, filepath.Ext(file)) + ".png"
	}
	for lengthen(names, files) {
		continue
	}
	return names
}

// lengthen gives the images that share a name their longer one, and reports
// whether there were any. A longer name may meet another image's short one (a.jpg,
// a.gif and a.jpg.gif), hence the rounds; each lengthens a name, so they end.
func lengthen(names, files []string) (changed bool) {
	holders := make(map[string]int, len(names))
	for _, name := range names {
		holders[strings.ToLower(name)]++
	}
	for i, file := range files {
		if long := file + ".png"; holders[strings.ToLower(names[i])] > 1 && names[i] != long {
			names[i], changed = long, true
		}
	}
	return changed
}
