package nats

import (
	"fmt"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// acknowledged returns a confirmer that has sent acknowledgements, and the
// acknowledgements.
func acknowledged(t *testing.T, n int) (*confirmer, []*natsgo.Msg) {
	t.Helper()
	conn, err := Embed(t.TempDir(), Store{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(t.Context())) })
	inlet, err := NewInlet(t.Context(), conn, "numbers", Options[int]{})
	require.NoError(t, err)
	sub, err := conn.nc.SubscribeSync("answer.>")
	require.NoError(t, err)
	c := newConfirmer(inlet.tracker)
	t.Cleanup(func() {
		c.close()
		for _, l := range c.lanes {
			c.giveUp(l)
		}
	})
	for k := range n {
		d := &delivery{seq: uint64(k), consumer: "c", of: inlet.tracker, msg: &natsgo.Msg{Reply: fmt.Sprint("answer.", k)}}
		inlet.tracker.held[d.seq] = d
		c.send(d, "+ACK", &inlet.tracker.n.Acknowledged)
	}
	all := make([]*natsgo.Msg, n)
	for k := range all {
		all[k], err = sub.NextMsg(time.Minute)
		require.NoError(t, err)
	}
	return c, all
}

// A server that syncs each removal of a message handles acknowledgements more
// slowly than they come.
func TestAConfirmationCountsWhileTheServerHandlesLaterAcknowledgements(t *testing.T) {
	const n = 10 * askEvery
	c, all := acknowledged(t, n)
	require.NotEmpty(t, all[0].Reply, "the first has waited for nothing")
	unasked := 0
	for k, m := range all {
		if unasked++; m.Reply == "" {
			require.LessOrEqual(t, unasked, askEvery, "before %d", k)
			continue
		}
		unasked = 0
		require.NoError(t, m.Respond(nil))
		c.confirmed(<-c.replies)
		require.EqualValues(t, k+1, c.t.counts().Acknowledged)
		require.EqualValues(t, n-k-1, c.t.counts().InFlight)
	}
	if c.t.counts().InFlight == 0 {
		return
	}
	require.Empty(t, c.tokens)
	for len(c.tokens) == 0 { // the last asks after a pause
		<-c.rest.C
		c.askForRest()
	}
	require.Len(t, c.tokens, 1)
}

func TestALateConfirmationCountsNothingTwice(t *testing.T) {
	c, all := acknowledged(t, 2*askEvery+1)
	require.NoError(t, all[0].Respond(nil))
	first := <-c.replies
	c.confirmed(first)
	c.confirmed(first)
	require.EqualValues(t, 1, c.t.counts().Acknowledged)
	c.look(true)
	for _, m := range all {
		if m.Reply != "" {
			require.NoError(t, m.Respond(nil))
			c.confirmed(<-c.replies)
		}
	}
	require.EqualValues(t, 1, c.t.counts().Acknowledged, "the answers were sent again after these requests")
	require.Len(t, c.tokens, 1)
}
