package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/textproto"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// file is a file, as the server last saw it. It is immutable except for
// checked, so that many answers can share it.
type file struct {
	modTime time.Time
	stamp   stamp // of the version on the disk
	size    int64
	etag    string
	lines   []byte // header lines for an answer with the file, or part of it
	kept    []byte // the lines of a 304: the rest of lines from the ETag on
	data    []byte // nil if the file is not kept in memory

	checked atomic.Int64 // when it was last compared with the disk, on the server's clock
}

// newFile describes a file. The data is nil if it stays on the disk. If the
// name does not determine the content type, the content does in either case.
func newFile(name string, info fs.FileInfo, data []byte, content io.ReaderAt) *file {
	f := &file{modTime: info.ModTime(), stamp: stampOf(info), size: info.Size(), data: data}
	if data != nil {
		f.size = int64(len(data)) // it may have grown since
	}
	f.etag = f.tag()
	kept := "ETag: " + f.etag + "\r\n"
	if !f.modTime.IsZero() {
		kept += "Last-Modified: " + f.modTime.UTC().Format(http.TimeFormat) + "\r\n"
	}
	lines := "Content-Type: " + contentType(name, content) + "\r\nAccept-Ranges: bytes\r\n"
	f.lines = []byte(lines + kept)
	f.kept = f.lines[len(lines):]
	return f
}

// stamp changes when a file does, even if its size and its time of modification
// stay the same.
type stamp struct {
	modified int64  // nanoseconds
	changed  int64  // nanoseconds: the system sets it at each change, and programs cannot set it
	inode    uint64 // differs if the file replaced an older one
}

// tag returns an identifier of a version of a file: made of its times and its
// size, or, for embedded files, which have no time, of its bytes.
func (f *file) tag() string {
	if f.modTime.IsZero() {
		sum := sha256.Sum256(f.data)
		return fmt.Sprintf(`"%x"`, sum[:12])
	}
	return fmt.Sprintf(`"%x-%x-%x"`, f.stamp.modified, f.stamp.changed, f.size)
}

// sniffed is how many bytes net/http reads to detect a content type.
const sniffed = 512

func contentType(name string, content io.ReaderAt) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	head := make([]byte, sniffed)
	n, _ := content.ReadAt(head, 0) // a read error will occur again when the file is sent
	return http.DetectContentType(head[:n])
}

// same reports whether a file on the disk is still the known version.
func (f *file) same(info fs.FileInfo) bool {
	return f.stamp == stampOf(info) && f.size == info.Size()
}

// answer answers a request with the file. The body is not set if the file is
// not in memory.
func (f *file) answer(req *http.Request) answer {
	if !conditional(req) {
		return answer{status: http.StatusOK, lines: f.lines, text: f.data, length: f.size, left: f.size}
	}
	return f.judge(req)
}

// conditional reports whether the headers of a request may change the answer.
func conditional(req *http.Request) bool {
	for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range"} {
		if len(req.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// judge answers a request that has conditions or asks for a part.
// [http.ServeContent] implements those rules: it gets the request and a file
// without content, and its result is converted into an answer.
func (f *file) judge(req *http.Request) answer {
	if !partial(req) {
		req.Header.Del("Range")
	}
	v := &verdict{header: http.Header{"Content-Type": {""}, "Etag": {f.etag}}}
	at := &position{size: f.size}
	http.ServeContent(v, req, "", f.modTime, at)
	switch v.status {
	case http.StatusOK:
		return answer{status: v.status, lines: f.lines, text: f.data, length: f.size, left: f.size}
	case http.StatusPartialContent:
		return f.part(v, at.offset)
	case http.StatusNotModified:
		return answer{status: v.status, lines: f.kept, length: -1}
	case http.StatusPreconditionFailed:
		return text(v.status, "the file does not meet the condition\n")
	default:
		a := text(v.status, "the file has no such part\n")
		a.extra = contentRange(v)
		return a
	}
}

// partial reports whether a request asks for one part of a file. Requests for
// several parts, which browsers do not make, and those in another unit than
// bytes are answered with the whole file, as RFC 9110 (14.2) allows.
func partial(req *http.Request) bool {
	unit, parts, _ := strings.Cut(textproto.TrimString(req.Header.Get("Range")), "=")
	return req.Method == http.MethodGet && strings.EqualFold(unit, "bytes") && !strings.Contains(parts, ",")
}

func (f *file) part(v *verdict, off int64) answer {
	a := answer{status: v.status, lines: f.lines, extra: contentRange(v), length: v.length, off: off, left: v.length}
	if f.data != nil {
		a.text = f.data[off : off+v.length]
	}
	return a
}

func contentRange(v *verdict) string {
	return "Content-Range: " + v.header.Get("Content-Range") + "\r\n"
}

// verdict is a ResponseWriter that records the decision of ServeContent and
// drops all bytes.
type verdict struct {
	header http.Header
	status int
	length int64
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(b []byte) (int, error) { return len(b), nil }

// ReadFrom records how much would be sent.
func (v *verdict) ReadFrom(r io.Reader) (int64, error) { //nolint:unparam // the signature of io.ReaderFrom
	if l, ok := r.(*io.LimitedReader); ok {
		v.length = l.N
	}
	return v.length, nil
}

// position is a file without content in which ServeContent can seek.
type position struct{ size, offset int64 }

func (p *position) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Seek moves to an offset.
func (p *position) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		p.offset = offset
	case io.SeekCurrent:
		p.offset += offset
	default:
		p.offset = p.size + offset
	}
	return p.offset, nil
}
