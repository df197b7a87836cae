package worker

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// site is a way on which a crash has come, and its stack in words. To write a stack down
// takes tens of microseconds, which a stage that meets a poison command now and then has
// not; to note the way takes one. So each way is written down once, and all who crash on
// it share the text: only the numbers of goroutines and the arguments in it are those of
// the first.
type site struct {
	way         []uintptr
	inner       int // how many calls of way, from the innermost on, include all of the handler's; 0 if unknown
	stack       []byte
	fingerprint func() string
}

func newSite(way []uintptr, stack []byte) *site {
	return &site{
		way: way, inner: inner(way), stack: stack,
		fingerprint: sync.OnceValue(func() string { return Fingerprint(stack) }),
	}
}

// handlerCallers are the functions of the engine between whose call and a crash all calls of a handler are.
var handlerCallers = []string{modulePath + "worker.(*Worker).work", modulePath + "worker.(*Run).serve"}

// inner returns how many calls there are from a crash to the outermost of handlerCallers, both included, or 0 if there
// is none. What lies outside of that is the actor that runs the worker, and is the same for all crashes.
func inner(way []uintptr) int {
	for i, pc := range slices.Backward(way) {
		if f := runtime.FuncForPC(pc - 1); f != nil && slices.Contains(handlerCallers, f.Name()) {
			return i + 1
		}
	}
	return 0
}

const (
	// longestWay is how many calls a way may have, to be remembered: the stack of a
	// deeper one, a recursion's, is written down each time.
	longestWay = 128
	// mostSites bounds how many are remembered. A program has few places where it
	// crashes; one that has more forgets all and begins again.
	mostSites = 256
)

// siteCache is the sites that are known.
type siteCache struct {
	mu sync.RWMutex // guards on
	on map[uint64]*site
}

// sites are the process's, as the code is.
var sites = siteCache{on: map[uint64]*site{}}

// ways are kept for reuse. On the stack, one would make that of each worker's goroutine grow.
var ways = sync.Pool{New: func() any { return new([longestWay]uintptr) }}

// here is the site of a crash; it is called by the function that has recovered from it. A
// crash that follows the same calls of the handler as the last one has its site. Only those calls
// are read then, which are the smaller part of a stack. A nil last is for a crash outside of handlers.
func (a *siteCache) here(last *atomic.Pointer[site]) *site {
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

// find returns the site of a crash that came a given way.
func (a *siteCache) find(way []uintptr) *site {
	if len(way) == longestWay {
		return newSite(nil, debug.Stack())
	}
	m := mark(way)
	a.mu.RLock()
	s := a.on[m]
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
	a.on[m] = s
	return s
}

// mark tells ways apart, most of the time.
func mark(way []uintptr) (m uint64) {
	for _, pc := range way {
		m = (m ^ uint64(pc)) * 0x9e3779b97f4a7c15
		m ^= m >> 32
	}
	return m
}
