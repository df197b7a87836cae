package link

// Box has a command of type C on its way through a pipeline, or is free. An
// envelope has room for a pointer, so a struct or a string would be copied to
// the heap for every hop; a box is used again. See command.Boxes, which has the
// free ones.
//
// A load is the content of an envelope: a box with the command, or the command
// itself if its type needs no box or the box would not be used again.
type Box[C any] struct {
	next *Box[C] // in a chain of free ones, of which the last leads to itself; nil if the box is in use
	cmd  C
}

// Command returns where the command is. It panics if the box is free, which is
// a mistake in the engine.
func (b *Box[C]) Command() *C {
	if b.next != nil {
		panic("link: a box is used that is free")
	}
	return &b.cmd
}

// Take takes the first box off a chain, and returns the rest of the chain, nil
// if there is none.
func (b *Box[C]) Take() (rest *Box[C]) {
	rest, b.next = b.next, nil
	if rest == b {
		return nil
	}
	return rest
}

// Free puts a box before a chain, which may be nil. The caller clears the
// command if it has pointers, so that a free box keeps nothing alive.
func (b *Box[C]) Free(chain *Box[C]) {
	if b.next = chain; chain == nil {
		b.next = b
	}
}

// bare returns the command without its box.
func (b *Box[C]) bare() any { return *b.Command() }

// Bare returns the command of a load as users see it, for code that does not
// know its type. A command that was in a box is copied to the heap.
func Bare(load any) any {
	if b, ok := load.(interface{ bare() any }); ok {
		return b.bare()
	}
	return load
}

// Open returns the command of a load. If it is of another type, Open returns
// the zero C: so it does for the nil of an interface type.
func Open[C any](load any) (cmd C) {
	if b, ok := load.(*Box[C]); ok {
		return *b.Command()
	}
	cmd, _ = load.(C)
	return cmd
}

// Boxer returns an empty box.
type Boxer[C any] func() *Box[C]
