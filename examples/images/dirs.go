package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// prepare makes the directories that are written to, and says so now if that can't
// be done, before any work.
func (c config) prepare(box *outbox) error {
	if c.in != "" {
		if err := c.apart(); err != nil {
			return err
		}
	} else if err := writable("-captchas", c.captchas, box); err != nil {
		return err
	}
	return writable("-out", c.out, box)
}

// apart refuses to write into the directory that is read from: a.png would be
// written over itself.
func (c config) apart() error {
	in, err := os.Stat(c.in)
	if err != nil {
		return fmt.Errorf("-in: %w", err)
	}
	out, err := os.Stat(c.out)
	return fault(err == nil && os.SameFile(in, out), "-out: %s is the same directory as -in", c.out)
}

// writable makes a directory if need be, and tries to write a file.
func writable(option, dir string, box *outbox) error {
	if err := permitted(dir); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	probe, err := box.create(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
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
			return fault(info.Mode().Perm()&0o222 == 0, "%s is read-only", dir)
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
	return names, fault(len(names) == 0, "-in: there are no files in %s", dir)
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
