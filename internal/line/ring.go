package line

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
)

// Ring is the store of a line that is first in, first out. Its owner may push
// to it and pop from it in place: each hop of a plain stage does.
type Ring = ring.Ring[command.Envelope]

// count counts the commands of a ring that match.
func count(r *Ring, match func(*command.Envelope) bool) (n int) {
	r.Each(func(e *command.Envelope) {
		if match(e) {
			n++
		}
	})
	return n
}

// drain takes all commands out of a ring.
func drain(r *Ring) []command.Envelope {
	es := make([]command.Envelope, r.Len())
	r.PopInto(es)
	return es
}
