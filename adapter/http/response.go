package stagehttp

import "net/http"

// response remembers the status that was written.
type response struct {
	http.ResponseWriter
	status int                   // 0 while nothing was written
	last   func(p *problem) bool // ends a stream that has begun with a problem, and reports whether the client can tell
}

// WriteHeader remembers the status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write remembers that something was written.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fail answers with a problem. If a part of an answer is written already it
// aborts the connection: the client must not take the part for all.
func (w *response) fail(p *problem) {
	switch {
	case w.status == 0:
		p.write(w)
	case w.last == nil || !w.last(p):
		panic(http.ErrAbortHandler)
	}
}
