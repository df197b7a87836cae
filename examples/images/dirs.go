package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/examples/internal/show"
)

// prepare makes the directories for output, and returns an error before any
// work if that fails. After a failure it removes the directories that it made.
func (c config) prepare(box *outbox) error {
	var made []string
	for _, d := range c.written() {
		made = append(absent(d.path), made...) // subdirectories first
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

// folder is a directory for output, and the option that named it.
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

// outs returns the directories for images: one for each policy that is
// compared.
func (c config) outs() []string {
	if c.policies == nil {
		return []string{c.out}
	}
	dirs := make([]string, len(c.policies))
	for i, pol := range c.policies {
		dirs[i] = c.outOf(pol)
	}
	return dirs
}

// outOf returns a policy's own directory. File names should have no colon, and
// no policy's name has an underscore.
func (c config) outOf(pol controller.Policy) string {
	return filepath.Join(c.out, strings.ReplaceAll(pol.Name(), ":", "_"))
}

// apart refuses to write into the input directory: a.png would overwrite
// itself.
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

// absent returns a directory and its parents, as far as they do not exist.
func absent(dir string) (list []string) {
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

// open makes the directory if necessary, and tries to write a file.
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

// permitted checks the directory, or the nearest existing parent: it must be a
// directory and writable. The superuser could write anyway, but a read-only
// directory is meant to stay unchanged.
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

// listed returns the names of the files in a directory, at most n of them if n
// is not 0, in alphabetical order. Every file counts as an image, whatever its
// name; the load stage reports files that are none. Directories and hidden
// files are left out.
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

// outNames gives each image the name of its PNG file: a.jpg becomes a.png.
// Images that would share a name keep their extension as well, so that a.jpg
// and a.gif become a.jpg.png and a.gif.png and none is lost. Names that differ
// only in upper and lower case count as the same, as on many file systems.
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
// whether there were any. A longer name may equal another image's short one
// (a.jpg, a.gif and a.jpg.gif), hence the rounds; each lengthens a name, so
// they end.
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
