package inbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// callers are the callers of a model's commands, each with a context of its own.
type callers struct {
	cancel  map[int]context.CancelFunc
	givenUp map[int]bool
	mu      *sync.Mutex  // guards settled
	settled map[int]bool // commands that the inbox has ended because their callers have given up, and that were not asked for yet
}

func newCallers() callers {
	return callers{map[int]context.CancelFunc{}, map[int]bool{}, new(sync.Mutex), map[int]bool{}}
}

// envelope returns a command whose caller may give up.
func (c *callers) envelope(id int) command.Envelope {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel[id] = cancel
	ticket := command.NewTicket(func(_ any, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if errors.Is(err, context.Canceled) {
			c.settled[id] = true
		}
	})
	return command.Envelope{Load: id, From: ticket.Asked(ctx, nil)}
}

// giveUp has the caller of one of the last commands give up.
func (c *callers) giveUp(t *rapid.T) {
	if len(c.cancel) == 0 {
		t.Skip()
	}
	ids := slices.Sorted(maps.Keys(c.cancel))
	id := ids[len(ids)-1-rapid.IntRange(0, min(len(ids)-1, 9)).Draw(t, "back")]
	c.givenUp[id] = true
	c.cancel[id]()
}

// gone returns the commands that the inbox has ended since the last time because their callers have given up.
func (c *callers) gone(t *rapid.T) map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := maps.Clone(c.settled)
	clear(c.settled)
	for id := range gone {
		if !c.givenUp[id] {
			t.Fatalf("%d has ended, and its caller has not given up", id)
		}
	}
	return gone
}
