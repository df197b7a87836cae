package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATicketHasTheResultOfItsCommand(t *testing.T) {
	ticket := NewTicket(nil)
	require.Nil(t, ticket.Result())
	require.NoError(t, ticket.Err())
	ticket.Settle(false, 7, nil)
	<-ticket.Done()
	require.Equal(t, 7, ticket.Result())
	require.NoError(t, ticket.Err())
}

func TestATicketIsNotDoneBeforeTheEnd(t *testing.T) {
	ticket := NewTicket(nil)
	ticket.Join()
	ticket.Settle(false, 7, nil)
	ticket.Join()
	ticket.Settle(true, 8, errors.New("child"))
	select {
	case <-ticket.Done():
		t.Fatal("done too early")
	default:
	}
	require.Nil(t, ticket.Result())
	require.NoError(t, ticket.Err())
	ticket.Settle(true, nil, nil)
	<-ticket.Done()
	require.Equal(t, 7, ticket.Result(), "a child's result is not the ticket's")
	require.EqualError(t, ticket.Err(), "child")
}

func TestATicketHasTheErrorsOfAllItsCommands(t *testing.T) {
	ticket := NewTicket(nil)
	ticket.Join()
	ticket.Join()
	own := &os.PathError{Op: "open", Path: "a", Err: os.ErrNotExist}
	second, third := errors.New("second"), errors.New("third")
	ticket.Settle(true, nil, fmt.Errorf("first: %w", own))
	ticket.Settle(false, nil, second)
	ticket.Settle(true, nil, third)
	err := ticket.Err()
	require.EqualError(t, err, "3 commands failed: first: open a: file does not exist; second; third")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, err, third)
	var path *os.PathError
	require.ErrorAs(t, err, &path)
	require.Same(t, own, path)
}

func TestATicketKeepsABoundedNumberOfErrorsAndCountsTheOthers(t *testing.T) {
	const children = 1000
	ticket := NewTicket(nil)
	for i := range children {
		ticket.Join()
		ticket.Settle(true, nil, fmt.Errorf("child %d", i))
	}
	ticket.Settle(false, "done", nil)
	var all *JoinedError
	require.ErrorAs(t, ticket.Err(), &all)
	require.Equal(t, children, all.Count)
	require.Len(t, all.Errs, MostErrors)
	require.EqualError(t, all.Errs[0], "child 0")
	require.Contains(t, all.Error(), "1000 commands failed: child 0; child 1;")
	require.Contains(t, all.Error(), fmt.Sprintf("; and %d more", children-MostErrors))
	require.Equal(t, "done", ticket.Result(), "the command itself has succeeded")
}

func TestANilTicketMayBeSettledAndJoined(t *testing.T) {
	var ticket *Ticket
	ticket.Join()
	ticket.Settle(false, 1, nil)
	ticket.Settle(true, nil, errors.New("unheard"))
}

// Children join further children and are settled concurrently. The last one ends the ticket, once.
func TestATicketOfManyConcurrentChildrenEndsOnce(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		const children, grandchildren = 8, 4
		var told atomic.Int32
		var result any
		var failure error
		boom := errors.New("boom")
		ticket := NewTicket(func(r any, err error) {
			told.Add(1)
			result, failure = r, err
		})
		fails := round%2 == 0
		var wg sync.WaitGroup
		for i := range children {
			ticket.Join()
			wg.Go(func() {
				for range grandchildren {
					ticket.Join()
					wg.Go(func() { ticket.Settle(true, "never", nil) })
				}
				if fails && i%3 == 0 {
					ticket.Settle(true, nil, boom)
				} else {
					ticket.Settle(true, i, nil)
				}
			})
		}
		wg.Go(func() { ticket.Settle(false, round, nil) })
		<-ticket.Done()
		require.Equal(t, round, ticket.Result())
		wg.Wait()
		require.EqualValues(t, 1, told.Load())
		require.Equal(t, round, result)
		if fails {
			var all *JoinedError
			require.ErrorAs(t, failure, &all)
			require.Equal(t, JoinedError{3, []error{boom, boom, boom}}, *all)
			require.Same(t, failure, ticket.Err())
		} else {
			require.NoError(t, failure)
			require.NoError(t, ticket.Err())
		}
	}
}

func TestAWaiterSeesTheResultAndAnErrorThatDoesNotChange(t *testing.T) {
	for range 1000 {
		ticket := NewTicket(nil)
		ticket.Join()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				<-ticket.Done()
				first := ticket.Err()
				require.Error(t, first)
				require.Same(t, first, ticket.Err())
				require.Nil(t, ticket.Result())
			})
		}
		wg.Go(func() { ticket.Settle(true, nil, errors.New("a")) })
		wg.Go(func() { ticket.Settle(false, nil, errors.New("b")) })
		wg.Wait()
	}
}

// Some goroutines wait before the end, some while it is recorded, some after; all are notified.
func TestEveryWaitingGoroutineIsNotifiedOfTheEnd(t *testing.T) {
	for round := range 3000 {
		var ticket Ticket
		ticket.Open()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range (round + i) % 4 {
					runtime.Gosched()
				}
				if i%2 == 0 {
					<-ticket.Done()
					<-ticket.Done()
				}
				result, err := ticket.Wait(context.Background())
				if result != round || err != nil || ticket.Result() != round {
					t.Error(round, result, err)
				}
			})
		}
		ticket.Settle(false, round, nil)
		wg.Wait()
	}
}

func TestAWaitEndsWithItsContextAndTheTicketContinues(t *testing.T) {
	ticket := NewTicket(nil)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(enough)
	result, err := ticket.Wait(ctx)
	require.Nil(t, result)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, enough)
	ticket.Settle(false, 7, nil)
	result, err = ticket.Wait(ctx)
	require.NoError(t, err, "a ticket that has ended returns its result, even if the context has ended")
	require.Equal(t, 7, result)
}

func TestATicketThatEndsTwicePanics(t *testing.T) {
	for name, listen := range map[string]func(*Ticket){
		"heard":   func(t *Ticket) { t.Done() },
		"unheard": func(*Ticket) {},
	} {
		t.Run(name, func(t *testing.T) {
			ticket := NewTicket(nil)
			listen(ticket)
			ticket.Settle(false, 1, nil)
			require.Panics(t, func() { ticket.Settle(false, 2, nil) })
		})
	}
}

// The mistake must not block goroutines that wait afterwards.
func TestATicketThatEndedTwiceHasEnded(t *testing.T) {
	ticket := NewTicket(nil)
	first := errors.New("first")
	ticket.Settle(false, nil, first)
	require.Panics(t, func() { ticket.Settle(false, nil, errors.New("second")) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // otherwise it would wait for ever
	_, err := ticket.Wait(ctx)
	require.Same(t, first, err)
	require.Same(t, first, ticket.Err())
	select {
	case <-ticket.Done():
	default:
		require.Fail(t, "a goroutine that waits now is not notified")
	}
}

// The function that NewTicket was given may take long, or panic.
func TestWaitingGoroutinesAreNotifiedBeforeTheFunctionIsCalled(t *testing.T) {
	var done <-chan struct{}
	heard := false
	ticket := NewTicket(func(any, error) {
		select {
		case <-done:
			heard = true
		default:
		}
	})
	done = ticket.Done()
	ticket.Settle(false, 1, nil)
	require.True(t, heard)
}
