// Package goid tells goroutines apart, for the few checks that name a caller who waits for itself.
package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// ID returns the number of the calling goroutine. It takes about a microsecond: the runtime tells the number only in the
// first line of a stack, "goroutine 7 [running]:".
func ID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
