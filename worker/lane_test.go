package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// fates are what a handler may do with a command: forward it to a or b, end it with OK or an error, fail once and then forward
// it to a, emit to a and forward it to a or b, or crash.
var fates = []string{"a", "b", "ok", "error", "later", "emit a", "emit b", "panic", "exit"}

// fork does with a command what follows the number in the command.
func fork(t context.Context, cmd string, a, b *stage.Stage[string]) behaviour.Outcome {
	fate := fateOf(cmd)
	switch fate {
	case "a":
		return behaviour.Forward(a, cmd)
	case "b":
		return behaviour.Forward(b, cmd)
	case "later":
		if behaviour.Attempt(t) == 1 {
			return behaviour.Error(errBoom)
		}
		return behaviour.Forward(a, cmd)
	case "emit a", "emit b":
		if err := behaviour.Emit(t, a, cmd+"'s child"); err != nil {
			return behaviour.Error(err)
		}
		if fate == "emit a" {
			return behaviour.Forward(a, cmd)
		}
		return behaviour.Forward(b, cmd)
	case "error":
		return behaviour.Error(errBoom)
	case "ok":
		return behaviour.OK("fork " + cmd)
	}
	crashes(fate)
	return behaviour.OK(nil)
}

// fateOf returns what the handler does with a command.
func fateOf(cmd string) string {
	_, fate, _ := strings.Cut(cmd, " ")
	return fate
}

// expected returns which commands a and b are given, in order, if a command whose try failed comes behind all others; and the
// results of the tickets.
func expected(cmds []string) (a, b []string, results []any) {
	var late []string
	for _, cmd := range cmds {
		var result any
		switch fateOf(cmd) {
		case "a":
			a, result = append(a, cmd), "a "+cmd
		case "b":
			b, result = append(b, cmd), "b "+cmd
		case "later":
			late, result = append(late, cmd), "a "+cmd
		case "emit a":
			a, result = append(a, cmd+"'s child", cmd), "a "+cmd
		case "emit b":
			a, b, result = append(a, cmd+"'s child"), append(b, cmd), "b "+cmd
		case "ok":
			result = "fork " + cmd
		}
		results = append(results, result)
	}
	return append(a, late...), b, results
}

// Whatever becomes of the commands of a batch, those that go to the same stage stay in order, and each ticket has the result
// of its own command.
func TestCommandsOfABatchStayInOrderAndSettleTheirTickets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(rt, "batch")
		room := rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "room")
		var cmds []string
		for i, fate := range rapid.SliceOfN(rapid.SampledFrom(fates), 1, 40).Draw(rt, "fates") {
			cmds = append(cmds, fmt.Sprintf("%d %s", i, fate))
		}
		bubble(t, func(t *testing.T) {
			var atA, atB seen
			end := func(name string, log *seen) *stage.Stage[string] {
				return stage.Func(name, func(ctx context.Context, cmd string) behaviour.Outcome {
					if behaviour.Attempt(ctx) != 1 {
						return behaviour.Error(errors.New("a try at another stage was counted here"))
					}
					log.note(cmd)
					return behaviour.OK(name + " " + cmd)
				}, stage.Workers(1, 1), stage.Capacity(room))
			}
			a, b := end("a", &atA), end("b", &atB)
			s, open := gated(func(ctx context.Context, cmd string) behaviour.Outcome { return fork(ctx, cmd, a, b) },
				stage.Batch(most), stage.Retry(stage.RetryPolicy{Attempts: 2, If: func(err error) bool { return !stage.Crashed(err) }}))
			p := run(t, s, a, b)
			require.NoError(t, s.Submit(t.Context(), "gate"))
			var tickets []*stage.Ticket
			for _, cmd := range cmds {
				tickets = append(tickets, ask(t, s, cmd))
			}
			open()
			require.NoError(t, p.Drain(t.Context()))
			synctest.Wait() // accounts are booked before tickets are settled
			wantA, wantB, results := expected(cmds)
			require.Equal(t, wantA, atA.all())
			require.Equal(t, wantB, atB.all())
			for i, ticket := range tickets {
				ended(t, ticket, cmds[i])
				require.Equal(t, results[i], ticket.Result(), cmds[i])
				require.Equal(t, slices.Contains([]string{"error", "panic", "exit"}, fateOf(cmds[i])), ticket.Err() != nil, cmds[i])
			}
			balanced(t, p)
			stop(t, p)
		})
	})
}
