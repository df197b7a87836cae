package main

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/golda-dev/golda/pipeline/letters"
)

// fix: commands in quarantine are not lost. A command can be corrected by hand
// and retried. When the fault in the code is fixed, all its commands are
// retried. The rest is dropped on purpose.
func fix(ctx context.Context, s *story) error {
	var fixed atomic.Bool
	p, err := poisoned(ctx, s, &fixed)
	if err != nil {
		return err
	}
	store := p.Quarantine()

	nameless := store.List(letters.Filter{If: func(l letters.Letter) bool { return l.Command.(order).item == "" }})
	first := nameless[0]
	o := first.Command.(order)
	o.item = "paper"
	s.didf("An operator finds out what one of the nameless items was, and retries the order as %v.", o)
	if err := store.RetryAs(ctx, first.ID, o); err != nil {
		return err
	}
	s.sawf("letter %d is out of quarantine; left: %d.", first.ID, store.Len())

	boxless := fingerprintAt(store, "runtime error: integer divide by zero")
	s.didf("The division is fixed (in practice by Stage.Upgrade), and all letters with its fingerprint, %s, are retried.", boxless)
	fixed.Store(true)
	n, err := store.RetryAll(ctx, letters.Filter{Fingerprint: boxless})
	if err != nil {
		return err
	}
	s.sawf("%d letters were retried; left: %d.", n, store.Len())

	s.didf("The rest cannot be fixed, and is dropped.")
	s.sawf("%d dropped; left: %d.", store.Clear(letters.Filter{}), store.Len())
	return s.end(p) //nolint:contextcheck // it stops softly although ctx has ended
}

// fingerprintAt returns the fingerprint of the group whose error contains a
// text.
func fingerprintAt(store *letters.Store, says string) string {
	for _, g := range store.Groups() {
		if g.Example.Err != nil && strings.Contains(g.Example.Err.Error(), says) {
			return g.Fingerprint
		}
	}
	return ""
}
