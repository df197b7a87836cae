package coro

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine. The runtime tells it only in
// the first line of a stack, "goroutine 7 [running]:".
func goroutineID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
