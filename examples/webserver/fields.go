package main

import (
	"bytes"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// fields is the information in the header lines of a request that
// [http.ReadRequest] does not return. net/http's server uses it to refuse
// requests; a server that is built on ReadRequest has to find it out itself.
type fields struct {
	hosts  int    // the number of Host lines
	host   []byte // the value of the last of them
	coded  bool   // there is a Transfer-Encoding, which ReadRequest does not report for HTTP/1.0
	folded bool   // a line is continued on the next one (RFC 9112, 5.2)
}

// readFields reads the header lines of a complete head.
func readFields(head []byte) (f fields) {
	_, rest, _ := bytes.Cut(head, newline)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, newline)
		f.add(line)
	}
	return f
}

var (
	newline  = []byte("\n")
	hostName = []byte("Host")
	codeName = []byte("Transfer-Encoding")
)

func (f *fields) add(line []byte) {
	if len(line) == 0 {
		return
	}
	if line[0] == ' ' || line[0] == '\t' {
		f.folded = true
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.EqualFold(name, hostName):
		f.hosts++
		f.host = bytes.Trim(value, " \t\r")
	case bytes.EqualFold(name, codeName):
		f.coded = true
	}
}

// fault says why the header lines of a request are wrong. It refuses requests
// that net/http's server refuses, and requests that could make a proxy before
// this server see another request, or another end of it (RFC 9112, 11.2).
func (f *fields) fault(req *http.Request) string {
	switch {
	case f.folded:
		return "a header line is continued on the next one"
	case f.hosts == 0 && req.ProtoAtLeast(1, 1):
		return "the Host header is missing"
	case f.hosts > 1:
		return "there is more than one Host header"
	case !httpguts.ValidHostHeader(string(f.host)):
		return "the Host header is malformed"
	case f.coded && !req.ProtoAtLeast(1, 1):
		return "HTTP/1.0 has no Transfer-Encoding"
	case !validHeader(req.Header):
		return "a header is malformed"
	default:
		return ""
	}
}

func validHeader(header http.Header) bool {
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}
