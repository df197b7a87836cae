package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// digest returns a digest of files of one directory, of names and contents. It
// is the SHA-256 of the output of sha256sum for the files, in the order of
// their names:
//
//	cd out/images/erlda && LC_ALL=C sha256sum *.png | sha256sum
func digest(files []string) (string, error) {
	slices.Sort(files)
	all := sha256.New()
	for _, file := range files {
		one, err := contents(file)
		if err != nil {
			return "", fmt.Errorf("digest: %w", err)
		}
		_, _ = fmt.Fprintf(all, "%x  %s\n", one, filepath.Base(file)) // a hash never fails
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), nil
}

func contents(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
