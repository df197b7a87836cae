package main

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// answer is an answer, and how much of it has been written.
type answer struct {
	status int
	last   bool   // the connection ends after it
	keep   bool   // an HTTP/1.0 client that asked for keep-alive gets the header for it
	lines  []byte // ready-made header lines, shared: must not be changed
	extra  string // header lines of this answer only
	unsure bool   // the client may still be sending: closing at once could cost it the answer
	length int64  // announced length of the body; below zero, there is no such line

	head []byte // the rest of the head, once it has been made
	text []byte // the rest of a body in memory

	file  bodyFile      // a body on the disk, or nil
	off   int64         // how far the file has been sent
	left  int64         // how much of it is still to be sent
	begun bool          // its head is made
	moved bool          // some of it has been written since the connection was parked
	taken time.Duration // when the client was last known to accept some of it, on the server's clock
}

// bodyFile is a file that is sent piece by piece.
type bodyFile interface {
	io.ReaderAt
	io.Closer
}

// text returns an answer with a short body in plain text.
func text(status int, words string) answer {
	return answer{
		status: status, lines: plainText, text: []byte(words), length: int64(len(words)),
	}
}

var plainText = []byte("Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n")

// bare removes the body: a HEAD is answered with the head only.
func (a *answer) bare() {
	a.close()
	a.text, a.file, a.left = nil, nil, 0
}

// close closes the file.
func (a *answer) close() {
	if a.file != nil {
		_ = a.file.Close() // it was only read
		a.file = nil
	}
}

// appendHead appends the status line and the headers.
func (a *answer) appendHead(b, date []byte) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.status)...)
	b = append(b, "\r\nDate: "...)
	b = append(b, date...)
	b = append(b, "\r\n"...)
	b = append(b, a.lines...)
	b = append(b, a.extra...)
	if a.length >= 0 {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, a.length, 10)
		b = append(b, "\r\n"...)
	}
	switch {
	case a.last:
		b = append(b, "Connection: close\r\n"...)
	case a.keep:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}
