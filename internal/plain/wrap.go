package plain

import (
	"fmt"
	"strings"
)

// Wrap returns an error that wraps err and reads "prefix: " and err's text. If
// the prefix is a noun with a name, such as stage "s", the same noun before
// err's text is left out: not stage "s": stage: full.
//
// Unlike fmt.Errorf, Wrap and [Because] do not format err; only the Error
// method of the result does. So wrapping an error runs none of its methods,
// which may panic or end the goroutine. Goroutines of the engine wrap untrusted
// errors in this way.
func Wrap(prefix string, err error) error { return &wrapped{prefix, err} }

// Because returns an error that wraps two errors. Its text is that of kind,
// note, ": " and the text of err. Kind is one of the engine's own errors.
func Because(kind error, note string, err error) error { return &because{kind, note, err} }

type wrapped struct {
	prefix string
	err    error
}

func (w *wrapped) Error() string {
	noun, _, named := strings.Cut(w.prefix, " ")
	text := Text(w.err)
	if named {
		text = strings.TrimPrefix(text, noun+": ")
	}
	return w.prefix + ": " + text
}

func (w *wrapped) Unwrap() error { return w.err }

type because struct {
	kind error
	note string
	err  error
}

func (b *because) Error() string   { return fmt.Sprintf("%v%s: %s", b.kind, b.note, Text(b.err)) }
func (b *because) Unwrap() []error { return []error{b.kind, b.err} }
