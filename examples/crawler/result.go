package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

// result is the result of a crawl. Its methods may be called concurrently.
type result struct {
	links atomic.Int64 // that were followed or already known
	law   string       // the accounts of the pipeline

	mu     sync.Mutex     // guards the rest
	pages  map[string]int // how often each page was read
	failed map[string]int // how often each page failed for good
	causes map[string]int // how often pages failed, by the text of the error
}

func newResult() *result {
	return &result{pages: map[string]int{}, failed: map[string]int{}, causes: map[string]int{}}
}

// read notes a page that was read.
func (r *result) read(address *url.URL) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages[address.String()]++
}

// fail notes a page that could not be read.
func (r *result) fail(address *url.URL, err error) {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address, which differs from page to page
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[address.String()]++
	r.causes[err.Error()]++
}

// progress says how far the crawl is.
func (r *result) progress() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("read %d pages, %d failed, %d links followed", len(r.pages), len(r.failed), r.links.Load())
}

// report writes the result of the crawl, and returns an error if it differs
// from the result of a sequential search of the site.
func (r *result) report(w io.Writer, s *site, base *url.URL, took time.Duration) error {
	readable, failing := s.reachable()
	_, _ = fmt.Fprintf(w, "pages found: %d, links followed: %d\nread: %d\nfailed: %d\n",
		len(readable)+len(failing), r.links.Load(), len(r.pages), len(r.failed))
	for _, cause := range slices.Sorted(maps.Keys(r.causes)) {
		_, _ = fmt.Fprintf(w, "  %d: %s\n", r.causes[cause], cause)
	}
	_, _ = fmt.Fprintf(w, "took: %s\nlaw: %s\n", show.Brief(took), r.law)
	return errors.Join(
		compare("read", base, readable, r.pages),
		compare("reported as failed", base, failing, r.failed))
}

// compare returns an error if a page that was wanted was not met exactly once,
// or if another page was met.
func compare(how string, base *url.URL, want []int, met map[string]int) error {
	var missing, twice []string
	for _, page := range want {
		switch address := base.JoinPath(path(page)).String(); met[address] {
		case 0:
			missing = append(missing, address)
		case 1:
		default:
			twice = append(twice, address)
		}
	}
	if len(missing)+len(twice) == 0 && len(met) == len(want) {
		return nil
	}
	return fmt.Errorf("%d pages should be %s once, %d are: missing %q, more than once %q", len(want), how, len(met), missing, twice)
}
