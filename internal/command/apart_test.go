package command

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The ticket of a caller waits for a command apart, which does not end with the caller, and gets its error.
func TestACommandApartEndsByItselfAndItsTicketWaits(t *testing.T) {
	boom := errors.New("boom")
	for name, want := range map[string]error{"well": nil, "with an error": boom} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var ticket Ticket
			from := ticket.Asked(ctx, nil)
			ended := 0
			apart := from.Apart(func(err error) {
				require.Equal(t, want, err)
				ended++
			})
			apart.Ticket().Join() // the emission
			ticket.Settle(false, nil, nil)
			cancel()
			require.NoError(t, apart.Ended())
			require.Error(t, from.Ended())
			require.Zero(t, ended)
			require.False(t, ticket.ended())
			apart.Ticket().Settle(true, nil, want)
			require.Equal(t, 1, ended)
			require.Equal(t, want, ticket.Err())
			require.True(t, ticket.ended())
		})
	}
	var none *Origin
	ended := false
	apart := none.Apart(func(error) { ended = true })
	apart.Ticket().Join()
	require.False(t, apart.Ticket().Heard(), "a failure leaves a letter")
	apart.Ticket().Settle(true, nil, nil)
	require.True(t, ended)
}

func TestAGroupThatTakesAnotherEndsItsTickets(t *testing.T) {
	a, b := NewTicket(nil), NewTicket(nil)
	var first, second Group
	first.Add(a.Origin(), nil)
	second.Add(b.Origin(), nil)
	first.Take(&second)
	require.True(t, second.IsEmpty())
	a.Settle(false, nil, nil)
	b.Settle(false, nil, nil)
	require.False(t, b.ended())
	first.End(context.Canceled)
	require.ErrorIs(t, a.Err(), context.Canceled)
	require.ErrorIs(t, b.Err(), context.Canceled)
}
