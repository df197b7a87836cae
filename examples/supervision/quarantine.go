package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// order is so many pieces of something, and to be packed into so many boxes.
type order struct {
	item          string
	pieces, boxes int
}

func (o order) String() string { return fmt.Sprintf("%d %q in %d boxes", o.pieces, o.item, o.boxes) }

// initial is faulty: not every item has a name.
func initial(item string) byte { return item[0] }

// perBox is faulty, too: not every order has boxes. Once the fault is mended, they have one.
func perBox(o order, mended bool) int {
	if mended {
		return o.pieces / max(o.boxes, 1)
	}
	return o.pieces / o.boxes
}

// packing is a stage that meets two kinds of poison.
func packing(mended *atomic.Bool) *stage.Stage[order] {
	return stage.Func("pack", func(_ context.Context, o order) behaviour.Outcome {
		return behaviour.OK(fmt.Sprintf("%c: %d", initial(o.item), perBox(o, mended.Load())))
	}, stage.Workers(2, 2), stage.Retry(stage.RetryPolicy{Attempts: 3}))
}

// ordersOf are thirty orders, five of them poison.
func ordersOf() (all []order) {
	for i := range 30 {
		o := order{item: "pen", pieces: 10 * (i + 1), boxes: 1 + i%5}
		switch {
		case i%10 == 7:
			o.boxes = 0
		case i%15 == 3:
			o.item = ""
		}
		all = append(all, o)
	}
	return all
}

// quarantine: a command that crashes its handler as often as it may be tried is kept, with
// its stack. Letters of one cause are one group.
func quarantine(ctx context.Context, s *story) error {
	p, err := poisoned(ctx, s, new(atomic.Bool))
	if err != nil {
		return err
	}
	s.didf("The quarantine, by cause:")
	for _, g := range p.Quarantine().Groups() {
		s.sawf("%d letters of stage %q, fingerprint %s, at %s", g.Seen, g.Stage, g.Fingerprint, place(g.Example.Stack))
	}
	s.didf("And letter by letter:")
	for _, letter := range p.Quarantine().List(pipeline.LetterFilter{OldestFirst: true}) {
		_, why, _ := strings.Cut(letter.Err.Error(), ": ")
		s.sawf("%d. %v, %s", letter.ID, letter.Command, why)
	}
	return s.end(p) //nolint:contextcheck // it stops softly though ctx has ended
}

// poisoned is a pipeline that has had the thirty orders.
func poisoned(ctx context.Context, s *story, mended *atomic.Bool) (*pipeline.Pipeline, error) {
	pack := packing(mended)
	all := ordersOf()
	letters := make(chan stage.DeadLetter, len(all)) // a subscriber should be quick
	p, err := begin(ctx, "quarantine", pack, pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	if err != nil {
		return nil, err
	}
	s.didf("%d orders are packed; some of them crash whoever packs them, at each of three tries.", len(all))
	bad := 0
	for _, o := range all {
		switch _, err := stage.Call[string](ctx, pack, o); {
		case stage.Crashed(err):
			bad++
		case err != nil:
			return nil, err
		}
	}
	for range bad { // a letter is put away just after its sender is told
		<-letters
	}
	s.sawf("%d were packed, %d were not: their senders got an error.", len(all)-bad, bad)
	return p, nil
}
