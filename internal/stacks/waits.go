package stacks

import "bytes"

// Await is the kind of object that a goroutine waits for.
type Await uint8

// The kinds of waits.
const (
	Nothing Await = iota // nothing that is known
	Slot                 // a free slot of the inbox at the address
	Answer               // the ticket at the address
)

// waits lists the functions in which a goroutine waits. The first argument of
// each is the inbox or the ticket that it waits for.
var waits = []struct {
	function []byte
	of       Await
}{
	{[]byte("\n" + Module + "internal/inbox.(*Inbox).await("), Slot},
	{[]byte("\n" + Module + "internal/inbox.(*Inbox).awaitUse("), Slot},
	{[]byte("\n" + Module + "internal/inbox.(*Inbox).waitToEnter("), Slot},
	{[]byte("\n" + Module + "internal/command.(*Ticket).Wait("), Answer},
	{[]byte("\n" + Module + "stage.waitAside("), Answer},
}

// Awaits finds in a stack whether its goroutine waits for a slot or for an
// answer, and the address of the inbox or ticket. It reads the first argument
// of a call on the stack, so handlers need not record anything while they run.
func Awaits(stack []byte) (what Await, address uint64) {
	first := len(stack)
	for _, w := range waits {
		if i := bytes.Index(stack, w.function); i >= 0 && i < first {
			first, what = i, w.of
			address = firstArgument(stack[i+len(w.function)-1:])
		}
	}
	return what, address
}
