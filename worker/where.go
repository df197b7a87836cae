package worker

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Stacks finds, of each worker, the stack of the goroutine in which it runs now; of one
// that does not run, or whose stack is not found, there is none. Anybody may call it. It
// stops the world for as long as it takes to write all stacks down, at most 8 MB of them, so
// it is for a report.
//
// A worker is known by its address, which is the first argument of its methods on the
// stack. So nothing need be noted while it works, as a goroutine's number or label
// would have to be.
func Stacks(workers []*Worker) map[*Worker][]byte {
	found, _ := find(workers, nil)
	return found
}

// find finds the stacks of workers, and of runs that no worker runs.
func find(workers []*Worker, runs map[uint64]*Run) (found map[*Worker][]byte, aside map[*Run][]byte) {
	by := make(map[uint64]*Worker, len(workers))
	owners := make(map[uint64]*Worker)
	for _, w := range workers {
		by[address(w)] = w
		if run := w.running.Load(); run != nil {
			owners[address(run)] = w
		}
	}
	found, aside = make(map[*Worker][]byte, len(workers)), make(map[*Run][]byte)
	on := make(map[*Worker][]byte)
	for stack := range bytes.SplitSeq(everyStack(), []byte("\n\n")) {
		if w := by[receiver(stack, method)]; w != nil {
			found[w] = bytes.Clone(stack)
		}
		at := receiver(stack, serves)
		if w := owners[at]; w != nil {
			on[w] = bytes.Clone(stack)
		} else if run := runs[at]; run != nil {
			aside[run] = bytes.Clone(stack)
		}
	}
	maps.Copy(found, on) // who runs a coroutine only waits for it
	return found, aside
}

// How the lines of a worker's method, and of a run on its coroutine, begin in a stack.
var (
	method = []byte("\n" + modulePath + "worker.(*Worker).")
	serves = []byte("\n" + modulePath + "worker.(*Run).serve")
)

// receiver is the address of the worker, or the run, whose methods are on a stack, 0 if there are none.
// Of those the outermost count: a handler may, who knows, hold another worker.
func receiver(stack, method []byte) (address uint64) {
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

// firstArgument is the first argument of the call that a line of a stack begins with, 0 if it is no address.
func firstArgument(line []byte) uint64 {
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

// everyStack is the stacks of all goroutines, or as many as there is room for.
func everyStack() []byte {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= mostStack {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}

// Place is the innermost call of a user's code on the stack of a goroutine that handles a
// command, as "shop.(*Till).HandleCommand till.go:31": what it called of the standard library
// or of the engine, and waits in, is left out. It is empty if there is none.
func Place(stack []byte) string {
	frames := framesOf(stack)
	theirs := frames[:entry(frames)]
	if len(theirs) == 0 {
		return ""
	}
	own := theirs[len(theirs)-1].root() // the handler itself is theirs for certain
	for _, f := range theirs {
		if !f.engines() && (f.imported() || f.root() == own) {
			return fmt.Sprintf("%s %s", path.Base(f.name), f.line)
		}
	}
	return ""
}

// engines reports whether a call is one of the engine.
func (f frame) engines() bool {
	for _, pkg := range append([]string{modulePath + "internal/"}, engine...) {
		if strings.HasPrefix(f.name, pkg) {
			return true
		}
	}
	return false
}

// root is the first word of the path of a call's package.
func (f frame) root() string {
	if root, _, deep := strings.Cut(f.name, "/"); deep {
		return root
	}
	root, _, _ := strings.Cut(f.name, ".")
	return root
}

// imported reports whether a call is of a package that is no part of the standard library:
// its root is the name of a host.
func (f frame) imported() bool { return strings.Contains(f.root(), ".") }
