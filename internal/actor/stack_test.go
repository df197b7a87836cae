package actor

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// hungry is a call that takes three kilobytes of stack.
//
//go:noinline
func hungry(n int) byte {
	var frame [3 << 10]byte
	frame[n] = 1
	return frame[len(frame)/2]
}

// copied reports whether the stack was copied to a larger one meanwhile: then a local variable has another address.
func copied(f func()) bool {
	var here byte
	before := uintptr(unsafe.Pointer(&here))
	f()
	return before != uintptr(unsafe.Pointer(&here))
}

func TestAHandlerHasEnoughStack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection shrinks stacks that are not used
	bubble(t, func(t *testing.T) {
		var h heard
		l := links(t, system, 1)[0]
		l.turn = func() { h.note(copied(func() { hungry(7) })) }
		synctest.Wait()
		l.wake()
		synctest.Wait()
		require.Equal(t, []any{false}, h.take())
		kill(l.pid)
	})
}
