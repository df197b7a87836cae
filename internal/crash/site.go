package crash

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/stacks"
)

// Site is the sequence of calls that led to a crash, and its stack as text.
// Formatting a stack takes tens of microseconds, which is too much for a stage
// that meets a poison command now and then; recording the sequence of calls
// takes about one. So each sequence is formatted once, and all crashes that
// follow it share the text. The numbers of goroutines and the arguments in it
// come from the first crash.
type Site struct {
	way         []uintptr
	inner       int // how many calls of way, from the innermost on, include all of the handler's; 0 if unknown
	stack       []byte
	fingerprint func() string
}

func newSite(way []uintptr, stack []byte) *Site {
	return &Site{
		way: way, inner: inner(way), stack: stack,
		fingerprint: sync.OnceValue(func() string { return stacks.Fingerprint(stack) }),
	}
}

// inner returns how many calls there are from a crash to the outermost of
// [stacks.HandlerCallers], both included, or 0 if there is none. The calls outside of
// that are of the actor that runs the worker, and are the same for all crashes.
func inner(way []uintptr) int {
	for i, pc := range slices.Backward(way) {
		if f := runtime.FuncForPC(pc - 1); f != nil && slices.Contains(stacks.HandlerCallers, f.Name()) {
			return i + 1
		}
	}
	return 0
}

const (
	// longestWay is how many calls a sequence may have to be remembered. A
	// longer one, of a recursion, is formatted each time.
	longestWay = 128
	// mostSites bounds how many sites are remembered. A program has few places
	// where it crashes. If it has more, the cache is cleared.
	mostSites = 256
)

// siteCache holds the known sites.
type siteCache struct {
	mu sync.RWMutex // guards on
	on map[uint64]*Site
}

// sites is the cache of the process.
var sites = siteCache{on: map[uint64]*Site{}}

// ways reuses arrays. An array on the stack would make the stack of each
// worker's goroutine grow.
var ways = sync.Pool{New: func() any { return new([longestWay]uintptr) }}

// Last has the site of the last crash of a stage's handlers; none if none has
// crashed.
type Last struct{ at atomic.Pointer[Site] }

// Here returns the site of a crash. The function that has recovered from the
// crash calls it.
func (l *Last) Here() *Site { return sites.here(&l.at) }

// SiteOf returns the site of a handler that has not crashed, by its stack.
func SiteOf(stack []byte) *Site { return newSite(nil, stack) }

// here returns the site of a crash. The function that has recovered from the
// crash calls it. A crash that follows the same calls of the handler as the
// last one has the last one's site; then here reads only those calls, which are
// the smaller part of the stack. Last is nil for a crash outside of handlers.
func (a *siteCache) here(last *atomic.Pointer[Site]) *Site {
	calls := ways.Get().(*[longestWay]uintptr)
	defer ways.Put(calls)
	if last == nil {
		return a.find(calls[:runtime.Callers(2, calls[:])])
	}
	before := last.Load()
	if before != nil && slices.Equal(before.way[:before.inner], calls[:runtime.Callers(2, calls[:before.inner])]) {
		return before
	}
	s := a.find(calls[:runtime.Callers(2, calls[:])])
	if s.inner > 0 {
		last.Store(s)
	}
	return s
}

// find returns the site of a crash that followed the given calls.
func (a *siteCache) find(way []uintptr) *Site {
	if len(way) == longestWay {
		return newSite(nil, debug.Stack())
	}
	h := hash(way)
	a.mu.RLock()
	s := a.on[h]
	a.mu.RUnlock()
	if s != nil && slices.Equal(s.way, way) {
		return s
	}
	s = newSite(slices.Clone(way), debug.Stack())
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.on) >= mostSites {
		clear(a.on)
	}
	a.on[h] = s
	return s
}

// hash hashes a sequence of calls.
func hash(way []uintptr) (h uint64) {
	for _, pc := range way {
		h = (h ^ uint64(pc)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}
