package worker

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
)

// house is where the packages of the engine are, with the last slash.
var modulePath = strings.TrimSuffix(reflect.TypeFor[Worker]().PkgPath(), "worker")

// engine is how the names of functions begin that come between an actor and a user's
// code; those of the outermost first.
var engine = []string{
	modulePath + "worker.", modulePath + "stage.", modulePath + "internal/engine.", modulePath + "behaviour.",
	modulePath + "internal/control.", modulePath + "internal/letters.", modulePath + "internal/logs.",
}

// Fingerprint tells crashes apart by the place where they happened: a short hash of
// the user's part of the stack of a [CrashError], which is the same for the same place
// in every run of the same program. Numbers of goroutines, addresses, arguments, the
// frames of the engine, and how deep a recursion was do not matter; the value of the
// panic does not either. It is empty if the stack is.
func Fingerprint(stack []byte) string {
	frames := callers(framesOf(stack))
	if len(frames) == 0 {
		return ""
	}
	h := fnv.New64a()
	for _, f := range frames {
		_, _ = h.Write([]byte(f.name + " " + f.line + "\n")) // a hash never fails
	}
	return fmt.Sprintf("%012x", h.Sum64()>>16)
}

// frame is one call of a stack.
type frame struct {
	name string // package path and function
	line string // file, without its directories, and line
}

// framesOf reads what debug.Stack wrote, the innermost call first. Of a call it keeps
// what is the same in every run.
func framesOf(stack []byte) (frames []frame) {
	for line := range strings.SplitSeq(string(stack), "\n") {
		switch place, isPlace := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "created by "):
			return frames
		case isPlace && len(frames) > 0:
			last := &frames[len(frames)-1]
			if i := strings.LastIndex(place, " +0x"); i >= 0 {
				place = place[:i]
			}
			last.line = place[strings.LastIndexByte(place, '/')+1:]
		case strings.HasSuffix(line, ")"):
			frames = append(frames, frame{name: line[:strings.LastIndexByte(line, '(')]})
		}
	}
	return frames
}

// callers leaves out what called the user's code, and what was called because it
// crashed. Calls that come again, as in a recursion, count once. If nothing is left,
// the crash was the engine's own, and the innermost call is kept.
func callers(frames []frame) []frame {
	frames = frames[crashAt(frames):]
	theirs := frames[:entry(frames)]
	if len(theirs) == 0 {
		return frames[:min(len(frames), 1)]
	}
	once := theirs[:0]
	for _, f := range theirs { // a hundred at most: of a deeper stack Go leaves out the middle
		if !slices.Contains(once, f) {
			once = append(once, f)
		}
	}
	return once
}

// crashAt is the first call beneath the crash; 0 if the stack does not show one.
func crashAt(frames []frame) int {
	return 1 + slices.IndexFunc(frames, func(f frame) bool { return f.name == "panic" || f.name == "runtime.Goexit" })
}

// entry is where the engine called the user's code: the outermost frame of a worker and
// those of the engine that it called. A user's code may call the engine too, so the
// search begins from outside.
func entry(frames []frame) int {
	n := len(frames)
	for n > 0 && !strings.HasPrefix(frames[n-1].name, engine[0]) {
		n--
	}
	if n == 0 {
		return len(frames) // it was not called by a worker
	}
	for n > 0 && slices.ContainsFunc(engine, func(pkg string) bool { return strings.HasPrefix(frames[n-1].name, pkg) }) {
		n--
	}
	return n
}
