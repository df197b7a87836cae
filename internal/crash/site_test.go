package crash

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/stacks"
)

// crashed returns the site of a crash of f.
func crashed(a *siteCache, f func()) *Site { return crashedAfter(a, nil, f) }

// crashedAfter returns the site of a crash of f after the one in last.
func crashedAfter(a *siteCache, last *atomic.Pointer[Site], f func()) (at *Site) {
	defer func() {
		_ = recover()
		at = a.here(last)
	}()
	f()
	return nil
}

func boom(int) { panic("boom") }

func deep(n int) {
	if n == 0 {
		panic("deep")
	}
	deep(n - 1)
}

func newCache() *siteCache { return &siteCache{on: map[uint64]*Site{}} }

func TestCrashesThatFollowTheSameCallsShareOneStack(t *testing.T) {
	a := newCache()
	var all []*Site
	for i := range 3 {
		all = append(all, crashed(a, func() { boom(i) }))
	}
	require.Same(t, all[0], all[1])
	require.Same(t, all[0], all[2])
	require.Contains(t, string(all[0].stack), "crash.boom")
	require.Equal(t, stacks.Fingerprint(all[0].stack), all[0].fingerprint())
}

func TestCrashesThatFollowOtherCallsHaveAnotherStack(t *testing.T) {
	a := newCache()
	var all []*Site
	for range 2 { // the same place, called from two lines
		all = append(all, crashed(a, func() { boom(1) }))
		all = append(all, crashed(a, func() { boom(1) }))
	}
	require.NotSame(t, all[0], all[1])
	require.Same(t, all[0], all[2])
	require.Same(t, all[1], all[3])
	require.NotEqual(t, string(all[0].stack), string(all[1].stack))
}

// nameOf returns the name of a function as stacks print it.
func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

func TestACrashLikeTheLastSharesItsStackWhateverCalledTheWorker(t *testing.T) {
	known := stacks.HandlerCallers
	t.Cleanup(func() { stacks.HandlerCallers = known })
	stacks.HandlerCallers = []string{nameOf(crashedAfter)}
	a, last := newCache(), new(atomic.Pointer[Site])
	handler := func() { boom(1) }
	first := crashedAfter(a, last, handler)
	again := crashedAfter(a, last, handler)
	require.Same(t, first, again)
	deeper := crashedAfter(a, last, func() { handler() })
	require.NotSame(t, first, deeper)
	elsewhere := crashedAfter(a, last, func() { deep(3) })
	require.Contains(t, string(elsewhere.stack), "crash.deep")
	require.NotContains(t, string(elsewhere.stack), "crash.boom")
	long := crashedAfter(a, last, func() { deep(1000) })
	require.Contains(t, string(long.stack), "crash.deep")
	require.Same(t, elsewhere, last.Load(), "a sequence that is too long is formatted each time")
}

func TestSequencesOfCallsThatAreTooLongOrTooManyAreNotRemembered(t *testing.T) {
	a := newCache()
	long := crashed(a, func() { deep(1000) })
	require.Contains(t, string(long.stack), "crash.deep")
	require.NotEmpty(t, long.fingerprint())
	require.Empty(t, a.on)
	for n := range mostSites {
		a.on[uint64(n)] = long
	}
	for n := range 3 {
		at := crashed(a, func() { deep(n) })
		require.Contains(t, string(at.stack), "crash.deep")
		require.Len(t, a.on, n+1)
	}
}

// BenchmarkWhere compares finding the site of a crash with formatting its stack.
func BenchmarkWhere(b *testing.B) {
	for name, where := range map[string]func(){
		"by=way":  func() { sites.here(nil) },
		"by=text": func() { stacks.Fingerprint(debug.Stack()) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				func() {
					defer func() { _ = recover(); where() }()
					deep(20)
				}()
			}
		})
	}
}
