package letters

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// file is a file to which records are appended, each a line: a checksum in
// eight digits, a space, and JSON. It may end with a record that was not
// written whole, because the process was killed or the power failed. The store
// that it belongs to holds its lock.
type file struct {
	path  string
	f     *os.File
	size  int64 // where the next record begins
	live  int64 // bytes of the records that are still needed
	dirty bool  // there are records that were not synced
	err   error // why no record can be appended any more
}

// extent is where a record is.
type extent struct {
	at int64
	n  int
}

// openFile opens a file for reading and appending, and makes it if it is not
// there.
func openFile(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{path: path, f: f}, nil
}

// damage is the damage found in a file.
type damage struct {
	torn    int64 // bytes behind the last record
	damaged int   // lines that are no records, not counting one at the end that was not written whole
}

// load calls each for the records of the file. Bytes behind the last whole
// record stay until [file.cutOff].
func (f *file) load(each func(at extent, record []byte) error) (d damage, err error) {
	r := bufio.NewReaderSize(f.f, 64<<10)
	for bad := 0; ; {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return d, fmt.Errorf("%s: %w", f.path, err)
		}
		record, ok := parse(line)
		switch {
		case ok:
			at := extent{f.size + d.torn, len(line)}
			f.size, d.torn, d.damaged, bad = at.at+int64(at.n), 0, d.damaged+bad, 0
			if err := each(at, record); err != nil {
				return d, err
			}
		case err == nil:
			bad, d.torn = bad+1, d.torn+int64(len(line))
		default: // the end; the last line is not whole
			d.torn, d.damaged = d.torn+int64(len(line)), d.damaged+bad
			return d, nil
		}
	}
}

// cutOff removes the bytes behind the last whole record.
func (f *file) cutOff() error {
	if err := f.f.Truncate(f.size); err != nil {
		f.err = err
		return err
	}
	return nil
}

// checksumLen is the length of a checksum and the space behind it.
const checksumLen = 9

// lineOfRecord returns a record as a line of a file.
func lineOfRecord(record []byte) []byte {
	line := make([]byte, 0, checksumLen+len(record)+1)
	line = fmt.Appendf(line, "%08x ", crc32.ChecksumIEEE(record))
	return append(append(line, record...), '\n')
}

// parse returns the record of a line, and whether it is whole.
func parse(line []byte) (record []byte, ok bool) {
	if len(line) <= checksumLen || line[len(line)-1] != '\n' {
		return nil, false
	}
	record = line[checksumLen : len(line)-1]
	return record, bytes.Equal(line[:checksumLen], fmt.Appendf(nil, "%08x ", crc32.ChecksumIEEE(record)))
}

// add appends a line. If that fails, the file ends where it did.
func (f *file) add(line []byte) (at extent, err error) {
	if f.err != nil {
		return at, f.err
	}
	if _, err := f.f.WriteAt(line, f.size); err != nil {
		return at, errors.Join(err, f.cutOff())
	}
	at = extent{f.size, len(line)}
	f.size += int64(len(line))
	f.dirty = true
	return at, nil
}

// sync makes sure that all records survive a power cut.
func (f *file) sync() error {
	if !f.dirty {
		return f.err
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	f.dirty = false
	return f.err
}

// close syncs and closes the file.
func (f *file) close() error { return errors.Join(f.sync(), f.f.Close()) }

// slack is how many bytes a file may have beyond twice the bytes that are
// needed.
const slack = 1 << 20

// wasteful reports whether the file should be rewritten, because it has too
// many records that are not needed.
func (f *file) wasteful() bool { return f.err == nil && f.size > 2*f.live+slack }

// rewrite replaces the file by one with a first record and the records at the
// extents, which it changes to where they are now. If that fails, the file
// stays as it is.
func (f *file) rewrite(first []byte, needed []*extent) error {
	next, err := f.copyTo(f.path+".new", first, needed)
	if err != nil {
		return errors.Join(err, os.Remove(f.path+".new"))
	}
	// Windows renames no file that is open.
	if err := errors.Join(f.f.Close(), os.Rename(f.path+".new", f.path)); err != nil {
		f.err = err
		return err
	}
	syncDir(filepath.Dir(f.path))
	again, err := os.OpenFile(f.path, os.O_RDWR, 0o600)
	if err != nil {
		f.err = err
		return err
	}
	f.f, f.size, f.dirty, f.live = again, next.end, false, 0
	for i, at := range needed {
		*at = next.moved[i]
		f.live += int64(at.n)
	}
	return nil
}

// copied is the new place of records.
type copied struct {
	end   int64
	moved []extent
}

// copyTo writes a new file, and syncs and closes it.
func (f *file) copyTo(path string, first []byte, needed []*extent) (c copied, err error) {
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	w := bufio.NewWriterSize(to, 64<<10)
	n, err := w.Write(first)
	if err != nil {
		return c, err
	}
	c.end = int64(n)
	for _, at := range needed {
		if _, err := io.Copy(w, io.NewSectionReader(f.f, at.at, int64(at.n))); err != nil {
			return c, err
		}
		c.moved = append(c.moved, extent{c.end, at.n})
		c.end += int64(at.n)
	}
	return c, errors.Join(w.Flush(), to.Sync())
}

// syncDir makes sure that a rename survives a power cut, where the system can
// do that.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// setAside copies the file to another name, for a person to inspect.
func (f *file) setAside(path string) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.f.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(to, f.f)
	}
	return errors.Join(err, to.Close())
}
