package main

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/golda-dev/golda/pipeline"
)

// mend: what is in quarantine is not lost. A command can be mended by hand and tried again;
// when the fault in the code is mended, all that it kept back is tried again; the rest is
// dropped on purpose.
func mend(ctx context.Context, s *story) error {
	var mended atomic.Bool
	p, err := poisoned(ctx, s, &mended)
	if err != nil {
		return err
	}
	store := p.Quarantine()

	nameless := store.List(pipeline.LetterFilter{If: func(l pipeline.Letter) bool { return l.Command.(order).item == "" }})
	first := nameless[0]
	o := first.Command.(order)
	o.item = "paper"
	s.didf("Somebody looks up what one of the nameless items was, and tries the order again as %v.", o)
	if err := store.RetryAs(ctx, first.ID, o); err != nil {
		return err
	}
	s.sawf("letter %d is out of quarantine; left: %d.", first.ID, store.Len())

	boxless := fingerprintAt(store, "runtime error: integer divide by zero")
	s.didf("The division is mended (in life: by Stage.Upgrade), and all letters with its fingerprint, %s, are tried again.", boxless)
	mended.Store(true)
	n, err := store.RetryAll(ctx, pipeline.LetterFilter{Fingerprint: boxless})
	if err != nil {
		return err
	}
	s.sawf("%d letters were tried again; left: %d.", n, store.Len())

	s.didf("What is left is nobody's, and is dropped.")
	s.sawf("%d dropped; left: %d.", store.Clear(pipeline.LetterFilter{}), store.Len())
	return s.end(p) //nolint:contextcheck // it stops softly though ctx has ended
}

// fingerprintAt finds the group whose crashes say so.
func fingerprintAt(store *pipeline.Letters, says string) string {
	for _, g := range store.Groups() {
		if g.Example.Err != nil && strings.Contains(g.Example.Err.Error(), says) {
			return g.Fingerprint
		}
	}
	return ""
}
