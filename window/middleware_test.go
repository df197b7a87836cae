package window_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

var errAfterwards = errors.New("afterwards")

// ways are how a middleware fails a command after the handler has returned.
func ways(release <-chan struct{}) map[string]func() behaviour.Outcome {
	return map[string]func() behaviour.Outcome{
		"with an error":              func() behaviour.Outcome { return behaviour.Error(errAfterwards) },
		"by a panic":                 func() behaviour.Outcome { panic(errAfterwards) },
		"by runtime.Goexit":          func() behaviour.Outcome { runtime.Goexit(); return behaviour.Outcome{} },
		"because it does not return": func() behaviour.Outcome { <-release; return behaviour.OK(nil) },
	}
}

// failing is a middleware that fails the first tries of a command after next has returned.
func failing(text string, tries int, how func() behaviour.Outcome) stage.Option {
	return stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		try := behaviour.Attempt(ctx)
		o := next(ctx, cmd)
		if cmd.(word).text == text && try <= tries {
			return how()
		}
		return o
	})
}

func TestAMiddlewareThatFailsTheFirstCommandAfterwardsFailsAllCommandsOfTheWindow(t *testing.T) {
	for way := range ways(nil) {
		t.Run(way, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				release := make(chan struct{})
				how := ways(release)[way]
				b := start(t, by(window.Bounds[word]{Count: 3}, failing("a1", 9, how), stage.Timeout(time.Second)), textOf)
				tickets := []*stage.Ticket{b.ask("a1"), b.ask("a2"), b.ask("a3")}
				time.Sleep(10 * time.Second)
				for i, ticket := range tickets {
					require.True(t, hasEnded(ticket), i)
					require.Error(t, ticket.Err(), "command %d is in no result", i)
				}
				close(release)
				assert.Empty(t, b.stop())
			})
		})
	}
}

func TestAWindowThatAMiddlewareFailedAfterwardsIsTriedAgainAsAWhole(t *testing.T) {
	for way := range ways(nil) {
		t.Run(way, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				release := make(chan struct{})
				how := ways(release)[way]
				again := stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Minute})
				b := start(t, by(window.Bounds[word]{Count: 3}, failing("a1", 1, how), stage.Timeout(time.Second), again), textOf)
				tickets := []*stage.Ticket{b.ask("a1"), b.ask("a2"), b.ask("a3")}
				time.Sleep(10 * time.Minute)
				for i, ticket := range tickets {
					require.True(t, hasEnded(ticket), i)
				}
				close(release)
				b.stop()
				var got []string
				for _, g := range b.raw {
					for _, w := range g.Value {
						got = append(got, w.text)
					}
				}
				slices.Sort(got)
				assert.Equal(t, []string{"a1", "a2", "a3"}, got, "each command is in one result")
			})
		})
	}
}

// The result of a window is the first command's; what becomes of the others does not matter to it.
func TestAMiddlewareThatFailsALaterCommandAfterwardsFailsThatOneAlone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 3}, failing("a2", 9, ways(nil)["by a panic"])), textOf)
		tickets := []*stage.Ticket{b.ask("a1"), b.ask("a2"), b.ask("a3")}
		assert.Equal(t, []string{"0s full a1 a2 a3"}, b.take())
		require.NoError(t, tickets[0].Err())
		require.Error(t, tickets[1].Err())
		require.NoError(t, tickets[2].Err())
		b.stop()
	})
}

// A command that is stopped cannot wait for what becomes of the result of its window. It must not count as done then: the result may
// be lost.
func TestACommandThatIsStoppedBehindAFirstOneThatFailsIsNotDone(t *testing.T) {
	for _, way := range []string{"by a panic", "because it does not return"} {
		t.Run(way, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				release, gate := make(chan struct{}), make(chan struct{})
				key := func(w word) string {
					if w.key == "z" {
						<-gate
					}
					return w.key
				}
				b := start(t, window.By("words", key, window.Bounds[word]{Time: time.Second},
					failing("a1", 9, ways(release)[way]), stage.Timeout(time.Minute)), textOf)
				first := b.ask("a1")
				ctx, leave := context.WithCancel(t.Context())
				_, err := b.stage.Ask(ctx, words("a2")[0])
				require.NoError(t, err)
				synctest.Wait()
				b.submit("z1") // keeps the worker busy
				leave()
				time.Sleep(2 * time.Second) // the window is closed
				close(gate)
				time.Sleep(10 * time.Minute)
				require.True(t, hasEnded(first))
				require.Error(t, first.Err())
				s := b.stage.Snapshot()
				assert.EqualValues(t, 1, s.Counts.OK+s.Counts.Forwarded, "only z1 is in a result")
				close(release)
				assert.Equal(t, []string{"due z1"}, b.texts())
				b.stop()
			})
		})
	}
}

func TestACommandThatIsStoppedWhenItsWindowHasBeenClosedLeavesIt(t *testing.T) {
	for name, row := range map[string]struct {
		parts window.Parts[word]
		want  []string
	}{
		"and the group is not full": {window.Parts[word]{Count: 3, Limit: time.Minute}, []string{"early a1 a3"}},
		"and the others fail":       {window.Parts[word]{Count: 3, Limit: time.Minute, Fail: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				parts := row.parts
				parts.Whole = func(words []word) bool {
					if len(words) == 3 {
						leave()
						time.Sleep(time.Second) // the stop of a2 is queued before what the group's end wakes
					}
					return len(words) == 3
				}
				b := start(t, join(parts), textOf)
				first := b.ask("a1")
				second, err := b.stage.Ask(ctx, words("a2")[0])
				require.NoError(t, err)
				third := b.ask("a3")
				time.Sleep(2 * time.Second)
				assert.Equal(t, row.want, b.texts())
				require.True(t, hasEnded(first) && hasEnded(second) && hasEnded(third))
				require.ErrorIs(t, second.Err(), context.Canceled)
				for _, of := range []*stage.Ticket{first, third} {
					if parts.Fail {
						require.ErrorIs(t, of.Err(), window.ErrIncomplete)
					} else {
						require.NoError(t, of.Err())
					}
				}
				assert.Empty(t, b.stop())
			})
		})
	}
}
