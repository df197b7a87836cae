package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/golda-dev/golda/internal/feed"
)

// defaultLongest is how long a line may be by default, and how much is read at
// once.
const defaultLongest = 64 << 10

// LineError is why [Lines] could not go on. It is an error that a restart
// cannot help if it wraps [bufio.ErrTooLong], if the reader is a file that was
// closed or became shorter, and if it is a directory.
type LineError struct {
	Line   int64 // the number of the line, counted from 1 where the source began
	Offset int64 // of the line's first byte
	Err    error // bufio.ErrTooLong, or the error of the reader
}

// Error returns the place and the error.
func (e *LineError) Error() string {
	return fmt.Sprintf("source: line %d (at byte %d): %v", e.Line, e.Offset, e.Err)
}

// Unwrap returns the error.
func (e *LineError) Unwrap() error { return e.Err }

// Lines makes a source of the lines of a reader, without their ends "\n" or
// "\r\n". The last line need not have an end. A line of more than longest bytes
// is an error that names it, a [*LineError], and ends the feed; 0 means 64 KiB.
// An error of the reader is a failure: the source is run again after a pause,
// and continues at its position. So is a reader of which a hundred Reads in a
// row return neither bytes nor an error: that is [io.ErrNoProgress]. A file
// that was closed, a directory, and a file that ends before the size that it
// had at the beginning ([io.ErrUnexpectedEOF]), end the feed at once.
// pipeline.New refuses an r that is nil, or a nil [*os.File], and a longest
// below zero.
//
// The position is the number of bytes up to the end of the line. If r is a
// file, the total is its size. To begin at another position, see [Checkpoint],
// Lines seeks if r is an [io.Seeker], and otherwise reads and drops the bytes
// before that position.
//
// The source is for one feed: a second one gives up with an error. Lines never
// closes r. The source returns when its context ends, even if a Read does not;
// the goroutine that reads is then left until the Read returns.
func Lines(r io.Reader, longest int) Source[string] {
	if r == nil {
		return feed.Refused[string]("Lines: the reader is nil")
	}
	if f, ok := r.(*os.File); ok && f == nil {
		return feed.Refused[string]("Lines: the file is nil: os.Open has returned an error")
	}
	if longest < 0 {
		return feed.Refused[string]("Lines: the longest line of %d bytes must not be negative", longest)
	}
	if longest == 0 {
		longest = defaultLongest
	}
	l := &lines{in: input{r: r}, longest: longest, line: 1}
	return l.run
}

// lines is the state of a source of lines between runs.
type lines struct {
	running atomic.Bool
	in      input
	longest int
	begun   bool
	offset  int64 // of rest
	size    int64 // of a file, at the beginning
	line    int64 // the number of the first line in rest
	buf     []byte
	rest    []byte // the part of buf that was not submitted
	atEnd   bool
}

func (l *lines) run(ctx context.Context, submit func(string) error) error {
	if !l.running.CompareAndSwap(false, true) {
		return Fatal(errors.New("source: Lines: another feed reads these lines: make a source for each"))
	}
	defer l.running.Store(false)
	at := feed.Of(ctx)
	if err := l.begin(ctx, at.Position()); err != nil {
		return err
	}
	some := feed.Some(ctx, submit)
	var b batch
	for {
		line, n, err := l.next(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		b = batch{append(b.texts[:0], string(line)), append(b.ends[:0], l.offset+int64(n))}
		if some != nil {
			l.addWhole(&b)
		}
		for from := 0; from < len(b.texts); {
			n := 0
			if some != nil {
				n = some(b.texts[from:], func(i int) int64 { return b.ends[from+i] })
			}
			if n == 0 {
				if err := at.At(b.ends[from], func() error { return submit(b.texts[from]) }); err != nil {
					return err
				}
				n = 1
			}
			from += n
			l.skip(int(b.ends[from-1] - l.offset))
			l.line += int64(n)
		}
	}
}

// batch is lines that were read, and the positions behind them.
type batch struct {
	texts []string
	ends  []int64
}

// addWhole adds the lines behind the first that are in the buffer as a whole,
// up to one that is too long, which next reports.
func (l *lines) addWhole(b *batch) {
	for end := b.ends[0]; len(b.texts) < feed.MostAtOnce; {
		rest := l.rest[end-l.offset:]
		n := bytes.IndexByte(rest, '\n') + 1
		line := withoutEnd(rest[:n])
		if n == 0 || len(line) > l.longest {
			return
		}
		end += int64(n)
		b.texts, b.ends = append(b.texts, string(line)), append(b.ends, end)
	}
}

// withoutEnd returns a line without its end.
func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// seek moves to the position where the first run begins, if the reader can
// seek, and reports how long a file is.
func (l *lines) seek(ctx context.Context, from int64) error {
	if l.begun {
		return nil
	}
	if size, ok := l.in.size(); ok {
		SetTotal(ctx, size)
		l.size = size
		if from > size {
			return Fatal(fmt.Errorf("source: Lines: the position %d is behind the end of the file at %d", from, size))
		}
	}
	if s, ok := l.in.r.(io.Seeker); ok && from > 0 {
		if _, err := s.Seek(from, io.SeekCurrent); err == nil { // a pipe is a Seeker too, and cannot
			l.offset = from
		}
	}
	l.begun = true
	return nil
}

// begin moves to the position where a run begins.
func (l *lines) begin(ctx context.Context, from int64) error {
	if err := l.seek(ctx, from); err != nil {
		return err
	}
	if from < l.offset {
		return Fatal(fmt.Errorf("source: Lines: the position %d is before byte %d, which was read", from, l.offset))
	}
	for l.offset < from {
		if len(l.rest) == 0 && l.atEnd {
			return Fatal(fmt.Errorf("source: Lines: the position %d is behind the end at byte %d", from, l.offset))
		}
		if len(l.rest) == 0 {
			if err := l.read(ctx); err != nil {
				return err
			}
		}
		l.skip(int(min(from-l.offset, int64(len(l.rest)))))
	}
	return nil
}

// next returns the next line, and how many bytes it has with its end: 0 if
// there is none.
func (l *lines) next(ctx context.Context) (line []byte, n int, err error) {
	for seen := 0; ; {
		i := bytes.IndexByte(l.rest[seen:], '\n')
		n = seen + i + 1
		if i < 0 {
			n = len(l.rest)
		}
		line = withoutEnd(l.rest[:n])
		switch {
		case len(line) > l.longest:
			return nil, 0, Fatal(&LineError{l.line, l.offset, fmt.Errorf("%w: more than %d bytes", bufio.ErrTooLong, l.longest)})
		case i >= 0, l.atEnd:
			return line, n, nil
		}
		seen = n
		if err := l.read(ctx); err != nil {
			return nil, 0, err
		}
	}
}

func (l *lines) skip(n int) { l.rest, l.offset = l.rest[n:], l.offset+int64(n) }

// read reads some more bytes, or notes the end.
func (l *lines) read(ctx context.Context) error {
	more, err := l.in.read(ctx)
	l.buf = append(append(l.buf[:0], l.rest...), more...)
	l.rest = l.buf
	switch {
	case err == io.EOF: //nolint:errorlint // readers return it as it is
		if at := l.offset + int64(len(l.rest)); at < l.size {
			return Fatal(&LineError{l.line, l.offset, fmt.Errorf("%w: the file had %d bytes, and now ends at %d", io.ErrUnexpectedEOF, l.size, at)})
		}
		l.atEnd = true
		return nil
	case errors.Is(err, fs.ErrClosed), errors.Is(err, syscall.EISDIR): // no later Read succeeds
		return Fatal(&LineError{l.line, l.offset, err})
	case err != nil && ctx.Err() == nil:
		return &LineError{l.line, l.offset, err}
	default:
		return err
	}
}

var errReaderGone = errors.New("the reader has ended its goroutine")

// input reads in a goroutine of its own, so that a Read that does not return
// holds nothing up.
type input struct {
	r       io.Reader
	buf     []byte
	pending chan result // of a Read that was not waited for; nil if there is none
}

type result struct {
	n   int
	err error
}

// read returns some bytes, which are valid until the next call, or an error, or
// both.
func (in *input) read(ctx context.Context) ([]byte, error) {
	if in.pending == nil {
		if in.buf == nil {
			in.buf = make([]byte, defaultLongest)
		}
		in.pending = make(chan result, 1)
		go readInto(in.r, in.buf, in.pending)
	}
	select {
	case got := <-in.pending:
		in.pending = nil
		return in.buf[:got.n], got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// mostEmpty is how many Reads in a row may return nothing.
const mostEmpty = 100

// readInto reads until there is something. A panic of the reader becomes an
// error, since in this goroutine nothing else would catch it.
func readInto(r io.Reader, buf []byte, to chan<- result) {
	got := result{err: errReaderGone}
	defer func() {
		if v := recover(); v != nil {
			got = result{err: fmt.Errorf("the reader panicked: %v\n%s", v, debug.Stack())}
		}
		to <- got
	}()
	n, err := r.Read(buf)
	for tries := 1; n == 0 && err == nil; tries++ {
		if tries == mostEmpty {
			err = io.ErrNoProgress
			break
		}
		n, err = r.Read(buf)
	}
	if n < 0 || n > len(buf) {
		n, err = 0, fmt.Errorf("the reader returned an invalid count: %d", n)
	}
	got = result{n, err}
}

// size returns how many bytes a file has from where it is.
func (in *input) size() (int64, bool) {
	f, ok := in.r.(*os.File)
	if !ok {
		return 0, false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return info.Size() - at, err == nil
}
