package reexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// started is the file of the process, by the name with which it was started if
// that leads to it. It is found before main can change the working directory.
var started, errStarted = find()

func find() (string, error) {
	self, err := os.Executable()
	if err != nil || len(os.Args) == 0 {
		return self, err
	}
	name, err := exec.LookPath(os.Args[0])
	if err != nil {
		return self, nil //nolint:nilerr // the first argument may be anything
	}
	if name, err = filepath.Abs(name); err != nil || !same(name, self) {
		return self, nil //nolint:nilerr // as above
	}
	return name, nil
}

// same reports whether two names lead to one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// args returns the arguments for a process of a file: this process's own. If
// the first argument has a directory, the path of the file takes its place,
// because the path works from any working directory.
func args(path string) []string {
	all := slices.Clone(os.Args)
	if len(all) == 0 || filepath.Base(all[0]) != all[0] {
		all = slices.Concat([]string{path}, all[min(1, len(all)):])
	}
	return all
}
