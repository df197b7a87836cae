package command

import (
	"sync"
	"testing"
)

// A worker that was given up may add the command of a result to another window
// while the result ends. The race detector fails this test if the end changes
// what the window reads.
func TestAResultMayBeAddedToAWindowWhileItEnds(t *testing.T) {
	for range 100 {
		var g Group
		g.Add(NewTicket(nil).Origin(), nil)
		origin := g.Origin(&Envelope{From: NewTicket(nil).Origin()})
		var both sync.WaitGroup
		both.Go(func() { origin.Ticket().Settle(false, nil, nil) })
		both.Go(func() {
			var next Group
			next.Add(origin, nil)
			next.End(nil)
			_ = origin.Ticket().Includes(func(*Ticket) bool { return false })
		})
		both.Wait()
	}
}
