package pipeline

import (
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/stats"
)

// rests reports whether a stage has no commands except commands that it holds
// in windows, and returns the holder of these; nil if it holds none.
func rests(in *inbox.Inbox, a *inbox.Accounts) (holder link.Holder, ok bool) {
	held := 0
	if h := in.Config().Holder; h != nil {
		if held = h.HeldCommands(); held > 0 {
			holder = h
		}
	}
	q := &a.Queue
	return holder, q.Queued+q.Delayed+q.Carried+a.Out == 0 && q.InHand == held && q.Suspended == held
}

// happened is a number that grows with all that happens to the commands of a
// stage.
func happened(c *stats.Counts) uint64 { return c.Accepted + c.Ended() + c.Emitted + c.Retries }

// standsAfter is for how long nothing may happen behind a source that waits,
// until windows are closed.
const standsAfter = time.Second

// standing is a feed's knowledge of the stages behind it, while its source
// waits for the ends of its commands.
type standing struct {
	number uint64
	since  time.Time // zero if something happens
	closed int       // windows that were closed
}

// observe closes the windows that only commands close, if nothing has happened
// for long enough in the stages from a feed's on. It returns how many.
func (st *standing) observe(inboxes []*inbox.Inbox) (n int) {
	accounts := inbox.Counts(inboxes)
	var number uint64
	var holders []link.Holder
	for i := range accounts {
		holder, ok := rests(inboxes[i], &accounts[i])
		if !ok {
			st.since = time.Time{}
			return 0
		}
		if number += happened(&accounts[i].Counts); holder != nil {
			holders = append(holders, holder)
		}
	}
	if now := time.Now(); st.since.IsZero() || number != st.number {
		st.number, st.since = number, now
		return 0
	} else if now.Sub(st.since) < standsAfter {
		return 0
	}
	st.since = time.Time{}
	for _, h := range holders {
		n += h.ReleaseTimeless()
	}
	st.closed += n
	return n
}
