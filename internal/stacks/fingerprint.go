package stacks

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Fingerprint returns a short hash of the part of a crash's stack that is user
// code. Crashes at the same place have the same fingerprint, in every run of
// the same program. It depends on functions and lines only: the numbers of
// goroutines, addresses, arguments, the frames of the engine, the depth of a
// recursion and the value of the panic make no difference. An empty stack has
// an empty fingerprint.
func Fingerprint(stack []byte) string {
	frames := userCalls(framesOf(stack))
	if len(frames) == 0 {
		return ""
	}
	h := fnv.New64a()
	for _, f := range frames {
		_, _ = h.Write([]byte(f.name + " " + f.line + "\n")) // a hash never fails
	}
	return fmt.Sprintf("%012x", h.Sum64()>>16)
}

// userCalls returns the calls of user code, without their callers in the engine
// and without functions that ran because the code crashed. A call that occurs
// again, as in a recursion, counts once. If no user code is left, the engine
// itself crashed, and userCalls returns the innermost call.
func userCalls(frames []frame) []frame {
	frames = frames[crashAt(frames):]
	calls := frames[:entry(frames)]
	if len(calls) == 0 {
		return frames[:min(len(frames), 1)]
	}
	once := calls[:0]
	for _, f := range calls { // at most a hundred: Go elides the middle of a deeper stack
		if !slices.Contains(once, f) {
			once = append(once, f)
		}
	}
	return once
}

// crashAt returns the index of the first call beneath the crash, or 0 if the
// stack does not show one.
func crashAt(frames []frame) int {
	return 1 + slices.IndexFunc(frames, func(f frame) bool { return f.name == "panic" || f.name == "runtime.Goexit" })
}
