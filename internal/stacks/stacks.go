// Package stacks reads the stacks of goroutines as the runtime prints them:
// where a handler is, why it waits, and which crashes happened at the same
// place.
//
// It knows the engine's functions by their names in a stack. A function of the
// engine that is renamed or moved must be renamed here too; tests compare the
// names with the functions' own.
package stacks

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"
)

// Module is the path of the module, with a slash at the end.
var Module = strings.TrimSuffix(reflect.TypeFor[Await]().PkgPath(), "internal/stacks")

// HandlerCallers are the functions of the engine that handlers run in: all
// calls of a handler are between them and a crash. One runs in the goroutine of
// a worker, one on a coroutine.
var HandlerCallers = []string{Module + "worker.(*Worker).work", Module + "worker.(*Run).serve"}

// engine lists how the names of functions begin that run between an actor and
// user code.
var engine = []string{
	Module + "worker.", Module + "internal/crash.",
	Module + "stage.", Module + "internal/engine.", Module + "internal/version.", Module + "behaviour.",
	Module + "internal/control.", Module + "internal/letters.", Module + "internal/logs.",
}

// outermost is the part of engine in which all calls of user code are made: the
// workers, and the guard of code that is no handler.
var outermost = engine[:2]

// frame is one call of a stack.
type frame struct {
	name string // package path and function
	line string // file without its directories, and line
}

// framesOf parses the output of debug.Stack, the innermost call first. It keeps
// the parts of a call that are the same in every run.
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

// entry returns how many frames lie within the engine's call of user code. User
// code may call the engine too, so entry searches from the outermost frame
// inwards: it skips all up to the outermost frame of a worker, and then the
// frames of the engine that this one called.
func entry(frames []frame) int {
	n := len(frames)
	for n > 0 && !frames[n-1].isIn(outermost) {
		n--
	}
	if n == 0 {
		return len(frames) // no worker called it
	}
	for n > 0 && frames[n-1].isIn(engine) {
		n--
	}
	return n
}

// isIn reports whether the function is of one of the packages.
func (f frame) isIn(packages []string) bool {
	return slices.ContainsFunc(packages, func(pkg string) bool { return strings.HasPrefix(f.name, pkg) })
}

// most bounds how many bytes of stacks [All] returns.
const most = 8 << 20

// All returns the stacks of all goroutines, the first 8 MB of them. It stops
// the world while the runtime writes them, so it is for rare events.
func All() []byte {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= most {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}

// recent is the last reading of [Recent], as long as the garbage collector lets
// it be.
var recent struct {
	sync.Mutex
	at  time.Time
	all weak.Pointer[[]byte]
}

// Recent is [All], but the stacks may be as old as an age. Goroutines that have
// waited for longer than that are in them where they are now. So a thousand
// handlers that are given up together stop the world once, and not a
// thousand times.
func Recent(age time.Duration) []byte {
	recent.Lock()
	defer recent.Unlock()
	now := time.Now()
	if all := recent.all.Value(); all != nil {
		if passed := now.Sub(recent.at); passed >= 0 && passed <= age {
			return *all
		}
	}
	all := All()
	recent.at, recent.all = now, weak.Make(&all)
	return all
}

// Of returns the stack in a reading of all that begins with a header; nil if
// there is none.
func Of(all, header []byte) []byte {
	if !bytes.HasPrefix(all, header) {
		_, after, found := bytes.Cut(all, append([]byte("\n\n"), header...))
		if !found {
			return nil
		}
		all = all[len(all)-len(after)-len(header):]
	}
	stack, _, _ := bytes.Cut(all, []byte("\n\n"))
	return bytes.Clone(stack)
}

// Each calls f with the stack of each goroutine, which is part of a larger
// slice. Like [All] it stops the world.
func Each(f func(stack []byte)) {
	for stack := range bytes.SplitSeq(All(), []byte("\n\n")) {
		f(stack)
	}
}

// Header returns how the stack of the current goroutine begins: "goroutine 7 ".
func Header() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	if i := bytes.IndexByte(buf, '['); i > 0 {
		return buf[:i]
	}
	return nil
}

// Address returns the address of a value as stacks print it.
func Address[T any](at *T) uint64 { return uint64(reflect.ValueOf(at).Pointer()) }

// Receiver returns the address of the value that a method on the stack was
// called with, or 0. A method is given as a line of the stack begins, with a
// newline before it. Of several calls the outermost counts: a handler may hold
// another value of the same type.
func Receiver(stack, method []byte) (address uint64) {
	for {
		i := bytes.LastIndex(stack, method)
		if i < 0 {
			return 0
		}
		line := stack[i+len(method):]
		stack = stack[:i]
		if address := firstArgument(line); address != 0 {
			return address
		}
	}
}

// firstArgument returns the first argument of the call at the start of a line,
// or 0 if it is not an address.
func firstArgument(line []byte) uint64 {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	_, args, ok := bytes.Cut(line, []byte("(0x"))
	if !ok {
		return 0
	}
	digits := args[:len(args)-len(bytes.TrimLeft(args, "0123456789abcdef"))]
	address, err := strconv.ParseUint(string(digits), 16, 64)
	if err != nil {
		return 0
	}
	return address
}
