package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// refusal is the reason for which a request is not served: the status and a
// line for the client.
type refusal struct {
	status int
	words  string
	extra  string // header lines
	final  bool   // the bytes that follow may not be a request
}

// Error returns the status and the reason.
func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.words) }

// answer returns the answer of the refusal.
func (r *refusal) answer() answer {
	a := text(r.status, r.words+"\n")
	a.extra, a.last, a.unsure = r.extra, r.final, r.final
	return a
}

// whole returns the answer as bytes, for connections that cannot pass through
// the pipeline.
func (r *refusal) whole() []byte {
	a := r.answer()
	return append(a.appendHead(nil, []byte(time.Now().UTC().Format(http.TimeFormat))), a.text...)
}

func malformed(why string) *refusal {
	return &refusal{status: http.StatusBadRequest, words: why, final: true}
}

// parser turns bytes into requests, with net/http's own parser. It decides
// where a request ends and which requests the server accepts. It accepts no
// request that net/http's server refuses.
type parser struct {
	limits limits
	bytes  bytes.Reader
	reader *bufio.Reader
}

func newParser(l limits) *parser {
	return &parser{limits: l, reader: bufio.NewReaderSize(nil, 4096)}
}

// next parses a request at the front of b, and returns how many bytes it has.
// It returns 0 and nil as long as the request is not complete.
func (p *parser) next(b []byte) (n int, req *http.Request, err *refusal) {
	skipped := emptyLines(b)
	b = b[skipped:]
	if len(b) == 0 {
		return skipped, nil, nil
	}
	if !isToken(b[0]) {
		return 0, nil, malformed("this is not HTTP")
	}
	end := headEnd(b)
	if end > p.limits.head || end == 0 && len(b) > p.limits.head {
		return 0, nil, &refusal{
			status: http.StatusRequestHeaderFieldsTooLarge, final: true,
			words: fmt.Sprintf("a request's head may have %d bytes", p.limits.head),
		}
	}
	if end == 0 {
		return skipped, nil, nil
	}
	req, err = p.parse(b[:end])
	return skipped + end, req, err
}

// emptyLines counts the bytes of empty lines before a request, which must be
// ignored (RFC 9112, 2.2).
func emptyLines(b []byte) (n int) {
	for n < len(b) && (b[n] == '\n' || b[n] == '\r' && n+1 < len(b) && b[n+1] == '\n') {
		n++
	}
	return n
}

// isToken reports whether a method may start with the byte; a TLS greeting, for
// example, does not. A single carriage return may still become an empty line.
func isToken(b byte) bool {
	return b == '\r' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// headEnd returns the length of a head including the empty line that ends it,
// or 0 if it is not complete.
func headEnd(b []byte) int {
	end := bytes.Index(b, []byte("\n\r\n")) + 3
	if end < 3 {
		end = len(b) + 1
	}
	if bare := bytes.Index(b[:min(end, len(b))], []byte("\n\n")) + 2; bare >= 2 {
		return bare
	}
	if end > len(b) {
		return 0
	}
	return end
}

func (p *parser) parse(head []byte) (*http.Request, *refusal) {
	p.bytes.Reset(head)
	p.reader.Reset(&p.bytes)
	req, err := http.ReadRequest(p.reader)
	if err != nil || p.bytes.Len()+p.reader.Buffered() > 0 {
		return nil, malformed("malformed request")
	}
	return req, p.check(head, req)
}

// check refuses requests that net/http's parser accepts, but that its server or
// this one does not serve.
func (p *parser) check(head []byte, req *http.Request) *refusal {
	if req.ProtoMajor != 1 {
		return &refusal{status: http.StatusHTTPVersionNotSupported, words: "this server supports HTTP/1.1", final: true}
	}
	f := readFields(head)
	if fault := f.fault(req); fault != "" {
		return malformed(fault)
	}
	switch {
	case len(req.TransferEncoding) > 0:
		return &refusal{status: http.StatusLengthRequired, words: "a body needs a Content-Length", final: true}
	case req.ContentLength > p.limits.body:
		return &refusal{
			status: http.StatusRequestEntityTooLarge, final: true,
			words: fmt.Sprintf("a body may have %d bytes", p.limits.body),
		}
	case req.Header.Get("Expect") != "" && !strings.EqualFold(req.Header.Get("Expect"), "100-continue"):
		return &refusal{status: http.StatusExpectationFailed, words: "only 100-continue can be expected", final: true}
	default:
		return nil
	}
}

// expects reports whether the client waits for 100 Continue.
func expects(req *http.Request) bool { return req.ProtoAtLeast(1, 1) && req.Header.Get("Expect") != "" }

// The methods that this server knows. Only the first two are allowed.
func methods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodPatch, http.MethodOptions, http.MethodTrace, http.MethodConnect,
	}
}

// target returns the clean path of a request.
func target(req *http.Request) (string, *refusal) {
	switch {
	case req.Method == http.MethodGet || req.Method == http.MethodHead:
		return cleanPath(req)
	case slices.Contains(methods(), req.Method):
		return "", &refusal{
			status: http.StatusMethodNotAllowed, extra: "Allow: GET, HEAD\r\n", words: "only GET and HEAD are allowed",
		}
	default:
		return "", &refusal{status: http.StatusNotImplemented, words: "unknown method"}
	}
}

// cleanPath returns the request's path with no empty or dotted parts. It keeps
// a slash at the end.
func cleanPath(req *http.Request) (string, *refusal) {
	p := req.URL.Path
	if p == "" && req.URL.Opaque == "" { // http://host is the same as http://host/
		p = "/"
	}
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) || climbs(p) {
		return "", &refusal{status: http.StatusBadRequest, words: "invalid path"}
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean, nil
}

// climbs reports whether a path goes up. Clients resolve such a path before
// they send it, so this one is suspect. The site would not let it escape, but
// it is refused anyway.
func climbs(p string) bool {
	return strings.Contains(p, "..") && slices.Contains(strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}
