package worker

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
)

// site is a way on which a crash has come, and its stack in words. To write a stack down
// takes tens of microseconds, which a stage that meets a poison command now and then has
// not; to note the way takes one. So each way is written down once, and all who crash on
// it share the text: only the numbers of goroutines and the arguments in it are those of
// the first.
type site struct {
	way         []uintptr
	stack       []byte
	fingerprint func() string
}

func newSite(way []uintptr, stack []byte) *site {
	return &site{way: way, stack: stack, fingerprint: sync.OnceValue(func() string { return Fingerprint(stack) })}
}

const (
	// longestWay is how many calls a way may have, to be remembered: the stack of a
	// deeper one, a recursion's, is written down each time.
	longestWay = 128
	// mostSites bounds how many are remembered. A program has few places where it
	// crashes; one that has more forgets all and begins again.
	mostSites = 256
)

// atlas is the sites that are known.
type atlas struct {
	mu sync.RWMutex // guards on
	on map[uint64]*site
}

// sites are the process's, as the code is.
var sites = atlas{on: map[uint64]*site{}}

// ways are kept for reuse. On the stack, one would make that of each worker's goroutine grow.
var ways = sync.Pool{New: func() any { return new([longestWay]uintptr) }}

// here is the site of a crash; it is called by the function that has recovered from it.
func (a *atlas) here() *site {
	calls := ways.Get().(*[longestWay]uintptr)
	defer ways.Put(calls)
	way := calls[:runtime.Callers(2, calls[:])]
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
