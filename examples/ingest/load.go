package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// load is the clients of the server and their records of every job: how it was
// answered, and how often it was done.
type load struct {
	url string // the URL of the jobs

	mu     sync.Mutex // guards the rest
	answer map[string]int
	times  map[string]int
	errs   []error
}

// unanswered stands for the status of a request that the server's stop cut off.
const unanswered = 0

func newLoad(address string) *load {
	return &load{url: "http://" + address + "/jobs", answer: map[string]int{}, times: map[string]int{}}
}

// newClient returns a client with one connection. With more, some may be opened
// and not used: Shutdown waits five seconds for the first request of a
// connection.
func newClient() *http.Client { return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} }

// done records that a job was done.
func (l *load) done(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[job]++
}

// start starts n clients that send jobs, one after the other, until ctx has
// ended and the server no longer answers. The function that it returns waits
// for them.
func (l *load) start(ctx context.Context, n int) (join func()) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for k := 0; l.send(ctx, client, fmt.Sprintf("%d/%d", i, k), i%2 == 0); k++ { //nolint:revive // the loop needs no body
			}
		})
	}
	return all.Wait
}

// send posts a job, records the answer and reports whether the client should
// continue. A client that is refused waits as long as the server asks for, or
// until ctx ends.
func (l *load) send(ctx context.Context, client *http.Client, job string, wait bool) (more bool) {
	url := l.url
	if wait {
		url += "/done"
	}
	status, after, err := post(context.WithoutCancel(ctx), client, url, job)
	if status == unanswered && ctx.Err() != nil {
		l.note(job, unanswered, nil)
		return false // the server has stopped
	}
	l.note(job, status, err)
	if err != nil || status != http.StatusServiceUnavailable {
		return err == nil
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	return true
}

// post posts a job. It returns the status of the answer and, if that is 503,
// how long the server asks to wait.
func post(ctx context.Context, client *http.Client, url, job string) (status int, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(job))
	if err != nil {
		return 0, 0, err
	}
	w, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = w.Body.Close() }()
	_, _ = io.Copy(io.Discard, w.Body) // so that the connection is reused
	switch w.StatusCode {
	case http.StatusNoContent, http.StatusAccepted:
		return w.StatusCode, 0, nil
	case http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(w.Header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			return w.StatusCode, 0, fmt.Errorf("a 503 has Retry-After %q, not seconds", w.Header.Get("Retry-After"))
		}
		return w.StatusCode, time.Duration(seconds) * time.Second, nil
	default:
		return w.StatusCode, 0, fmt.Errorf("a job was answered %s", w.Status)
	}
}

func (l *load) note(job string, status int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer[job] = status
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// report writes the counts, and returns an error if the answers do not agree
// with the work: a job that was answered 202 or 204 is done once, a refused job
// never, and an unanswered one at most once.
func (l *load) report(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[int]int{}
	var wrong []string
	for job, status := range l.answer {
		count[status]++
		least, most := 0, 0
		switch status {
		case http.StatusNoContent, http.StatusAccepted:
			least, most = 1, 1
		case unanswered:
			most = 1
		}
		if times := l.times[job]; times < least || times > most {
			wrong = append(wrong, fmt.Sprintf("%s (answer %d, done %d times)", job, status, times))
		}
	}
	_, _ = fmt.Fprintf(w, "accepted: %d, of which %d when done\nrefused: %d\nunanswered: %d\ndone: %d\n",
		count[http.StatusNoContent]+count[http.StatusAccepted], count[http.StatusNoContent],
		count[http.StatusServiceUnavailable], count[unanswered], len(l.times))
	err := errors.Join(l.errs...)
	if len(wrong) > 0 {
		err = errors.Join(err, fmt.Errorf("%d jobs were not done as they were answered: %s", len(wrong), strings.Join(wrong, ", ")))
	}
	return err
}
