package stacks

import (
	"fmt"
	"path"
	"strings"
)

// Place returns the innermost call of user code on the stack of a goroutine
// that handles a command, such as "shop.(*Till).HandleCommand till.go:31". It
// skips the calls of the standard library and of the engine that the user code
// made and waits in. It is empty if there is no user code.
func Place(stack []byte) string {
	frames := framesOf(stack)
	calls := frames[:entry(frames)]
	if len(calls) == 0 {
		return ""
	}
	own := calls[len(calls)-1].root() // the outermost call is the handler, which is user code for certain
	for _, f := range calls {
		if !f.inEngine() && (f.imported() || f.root() == own) {
			return fmt.Sprintf("%s %s", path.Base(f.name), f.line)
		}
	}
	return ""
}

// inEngine reports whether the function is one of the engine.
func (f frame) inEngine() bool {
	return strings.HasPrefix(f.name, Module+"internal/") || f.isIn(engine)
}

// root returns the first element of the path of the function's package.
func (f frame) root() string {
	if root, _, deep := strings.Cut(f.name, "/"); deep {
		return root
	}
	root, _, _ := strings.Cut(f.name, ".")
	return root
}

// imported reports whether the function's package is outside the standard
// library: its root is a host name.
func (f frame) imported() bool { return strings.Contains(f.root(), ".") }
