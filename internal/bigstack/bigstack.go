// Package bigstack grows the stacks of goroutines when they start.
package bigstack

// size is what a grown stack has room for.
const size = 4 << 10

// Grow makes the stack of the goroutine large enough for most handlers. A
// goroutine starts with 2 KB, and keeps half of that in reserve; the path to a
// handler, or to a decoder, is longer. When a stack is too small, it is copied,
// and the pointers of each call on it are adjusted. With the ten calls that
// lead to a worker this takes longer than everything else about a single
// command. At the start of the goroutine there is only one call to adjust.
//
// The alternative would be goroutines that rest between two commands and keep
// their stacks; they would be as fast. But they would have to be ended, and an
// idle stage is to hold no goroutine.
func Grow() { grow(false) }

//go:noinline
func grow(use bool) byte {
	if !use { // the frame is allocated, but not cleared
		return 0
	}
	var frame [size]byte
	return fill(frame[:])
}

//go:noinline
func fill(b []byte) byte {
	for i := range b {
		b[i] = byte(i)
	}
	return b[len(b)/2]
}
