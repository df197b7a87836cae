package act

// ample is how much stack a mailbox's goroutine is given at once.
const ample = 4 << 10

// roomy sees to it that the goroutine's stack has room for most handlers. A goroutine begins with
// 2 KB, and keeps half of that in reserve; the way to a handler is longer. When the rest
// does not do, the stack is copied, and each call on it is looked up to mend its pointers: with the
// ten calls that lead to a worker this takes longer than all else about a lone command. At
// the very beginning there is one call to be mended.
//
// Goroutines that rest between two commands, their stacks with them, would be as fast. But somebody
// would have to end them, and a stage at rest is to hold none.
//
//go:noinline
func roomy(use bool) byte {
	if !use { // the frame is there, and nobody clears it
		return 0
	}
	var frame [ample]byte
	return fill(frame[:])
}

//go:noinline
func fill(b []byte) byte {
	for i := range b {
		b[i] = byte(i)
	}
	return b[len(b)/2]
}
