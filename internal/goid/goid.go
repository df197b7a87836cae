// Package goid identifies goroutines, for the few checks that detect a caller
// that waits for itself.
package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// InBubble reports whether the calling goroutine is in a bubble of
// testing/synctest. It takes about a microsecond: the first line of a stack
// says so.
func InBubble() bool {
	var line [128]byte
	first, _, _ := bytes.Cut(line[:runtime.Stack(line[:], false)], []byte("\n"))
	return bytes.Contains(first, []byte("synctest bubble"))
}

// ID returns the number of the calling goroutine. It takes about a microsecond:
// the runtime shows the number only in the first line of a stack, "goroutine 7
// [running]:".
func ID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
