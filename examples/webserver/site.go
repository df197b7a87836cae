package main

import (
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

//go:embed site
var demo embed.FS

// demoSite returns the embedded site.
func demoSite() (fs.FS, error) { return fs.Sub(demo, "site") }

// rooted is a directory that no path and no symbolic link escapes.
type rooted struct{ *os.Root }

// Open opens a file for reading. It does not wait for a writer of a named pipe.
func (r rooted) Open(name string) (fs.File, error) {
	return r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// found is a regular file at a path, or the path to redirect to.
type found struct {
	file  fs.File
	info  fs.FileInfo
	name  string
	slash bool // it is a directory, and its path has no slash at the end
}

// errNone means that there is no file at a path.
var errNone = errors.New("no such file")

// find opens the file of a clean path; the file of a directory is its
// index.html.
func find(site fs.FS, p string) (found, error) {
	name := strings.Trim(p, "/")
	if name == "" {
		name = "."
	}
	f, err := open(site, name)
	if err != nil {
		return found{}, err
	}
	switch {
	case f.info.IsDir() && !strings.HasSuffix(p, "/"):
		_ = f.file.Close()
		return found{slash: true}, nil
	case f.info.IsDir():
		_ = f.file.Close()
		f, err = open(site, path.Join(name, "index.html"))
	case strings.HasSuffix(p, "/"):
		err = errNone
	}
	if err == nil && !f.info.Mode().IsRegular() {
		err = errNone
	}
	if err != nil && f.file != nil {
		_ = f.file.Close()
	}
	return f, err
}

func open(site fs.FS, name string) (found, error) {
	f, err := site.Open(name)
	if err != nil {
		return found{}, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return found{}, err
	}
	return found{file: f, info: info, name: name}, nil
}

// read reads a whole file that is known to be small.
func (f found) read() ([]byte, error) {
	data := make([]byte, f.info.Size())
	n, err := io.ReadFull(f.file, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // it has just become shorter
		err = nil
	}
	return data[:n], err
}

// absent reports whether an error means that there is nothing at the path: no
// file, a path through something that is not a directory, an invalid name, a
// link that leaves the root or leads in a circle. Other errors are faults of
// the machine.
func absent(err error) bool {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return true // ErrNotExist of the embedded site; ErrInvalid; "path escapes from parent"
	}
	return errors.Is(err, fs.ErrNotExist) ||
		no == syscall.ENOTDIR || no == syscall.ENAMETOOLONG || no == syscall.ELOOP || no == syscall.EINVAL || no == syscall.ENXIO
}
