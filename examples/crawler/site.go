package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// site is a generated web site, the same for the same seed. Page 0 is its root.
// Every page links to random pages, and to its children in a binary tree, so
// that all pages could be found from the root.
type site struct {
	pages, links int
	seed         uint64
	share        shares
	delay        time.Duration // of a slow page

	mu    sync.Mutex     // guards asked
	asked map[int]uint64 // requests by page
}

// shares are the parts of the pages, from 0 to 1, that have a fault.
type shares struct{ slow, flaky, broken, hanging float64 }

// kind is the fault of a page.
type kind int

const (
	sound   kind = iota
	slow         // answers late
	flaky        // answers its first request with 503
	broken       // answers every request with 404
	hanging      // does not answer
)

// kindOf returns the fault of a page. The root has none.
func (s *site) kindOf(page int) kind {
	if page == 0 {
		return sound
	}
	dice := rand.New(rand.NewPCG(s.seed, uint64(page))).Float64()
	for _, k := range []struct {
		kind  kind
		share float64
	}{{slow, s.share.slow}, {flaky, s.share.flaky}, {broken, s.share.broken}, {hanging, s.share.hanging}} {
		if dice < k.share {
			return k.kind
		}
		dice -= k.share
	}
	return sound
}

// linksOf returns the pages that a page links to, some of them more than once.
func (s *site) linksOf(page int) []int {
	all := make([]int, 0, s.links)
	for _, child := range []int{2*page + 1, 2*page + 2} {
		if child < s.pages && len(all) < s.links {
			all = append(all, child)
		}
	}
	dice := rand.New(rand.NewPCG(s.seed+1, uint64(page)))
	for len(all) < s.links {
		all = append(all, dice.IntN(s.pages))
	}
	return all
}

// reachable returns all pages that a crawl must find, by a sequential search:
// the pages that can be read, and the pages that cannot.
func (s *site) reachable() (readable, failing []int) {
	seen := make([]bool, s.pages)
	seen[0] = true
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		if k := s.kindOf(page); k == broken || k == hanging {
			failing = append(failing, page)
			continue
		}
		readable = append(readable, page)
		for _, next := range s.linksOf(page) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	slices.Sort(readable)
	slices.Sort(failing)
	return readable, failing
}

// path returns the path of a page.
func path(page int) string { return fmt.Sprintf("/page/%d", page) }

// ServeHTTP answers with a page.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/page/"))
	if err != nil || page < 0 || page >= s.pages {
		http.NotFound(w, r)
		return
	}
	first := s.count(page) == 1
	switch k := s.kindOf(page); {
	case k == broken:
		http.NotFound(w, r)
		return
	case k == hanging:
		<-r.Context().Done()
		return
	case k == flaky && first:
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	case k == slow:
		time.Sleep(s.delay)
	}
	_, _ = fmt.Fprintf(w, "<html><title>page %d</title>", page)
	for _, next := range s.linksOf(page) {
		_, _ = fmt.Fprintf(w, "<a href=%q>page %d</a>\n", path(next), next)
	}
	_, _ = fmt.Fprint(w, "</html>")
}

// count counts a request and returns the number of requests for the page.
func (s *site) count(page int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[int]uint64{}
	}
	s.asked[page]++
	return s.asked[page]
}
