package feed

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A model: all commands in a list, of which the checkpoint is found by looking at each from the front.
func TestAWindowFindsThePositionUpToWhichAllHaveEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, 9).Draw(t, "from")
		c := &Cursor{}
		var w *Window
		c.Begun = func(of *Window, _ Save) { w = of }
		c.Begin(from, func(context.Context, int64) error { return nil })
		type command struct {
			next  int64
			end   End
			ended bool
			done  bool
		}
		var all []*command
		model := func() int64 {
			at := from
			for _, m := range all {
				if !m.ended || !m.done {
					break
				}
				at = m.next
			}
			return at
		}
		changed := from
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				next := c.Position() + rapid.Int64Range(1, 5).Draw(t, "step")
				m := &command{next: next}
				require.NoError(t, c.At(next, func() error {
					return c.Submit(context.Background(), func(as Terms) error { m.end = as.End; return nil })
				}))
				all = append(all, m)
				require.Equal(t, next, c.Position())
			},
			"submit plainly": func(t *rapid.T) {
				m := &command{next: c.Position() + 1}
				require.NoError(t, c.Submit(context.Background(), func(as Terms) error { m.end = as.End; return nil }))
				all = append(all, m)
			},
			"refuse": func(t *rapid.T) {
				before, no := c.Position(), errors.New("no")
				require.ErrorIs(t, c.Submit(context.Background(), func(Terms) error { return no }), no)
				require.Equal(t, before, c.Position())
			},
			"crash": func(t *rapid.T) {
				require.Panics(t, func() { _ = c.Submit(context.Background(), func(Terms) error { panic("no") }) })
			},
			"end": func(t *rapid.T) {
				var open []*command
				for _, m := range all {
					if !m.ended {
						open = append(open, m)
					}
				}
				if len(open) == 0 {
					t.Skip("all have ended")
				}
				m := rapid.SampledFrom(open).Draw(t, "command")
				m.ended, m.done = true, rapid.IntRange(0, 19).Draw(t, "undone") > 0
				m.end(nil, m.done)
			},
			"": func(t *rapid.T) {
				at, ok := c.Checkpoint()
				require.True(t, ok)
				require.Equal(t, model(), at)
				select {
				case <-w.Changed():
					require.NotEqual(t, changed, at)
					changed = at
				default:
					require.Equal(t, changed, at)
				}
			},
		})
	})
}

func TestAFullWindowWaitsForTheFirstCommandOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cursor{}
		c.Begin(0, func(context.Context, int64) error { return nil })
		var ends []End
		submit := func(ctx context.Context) error {
			return c.Submit(ctx, func(as Terms) error { ends = append(ends, as.End); return nil })
		}
		for range Width {
			require.NoError(t, submit(t.Context()))
		}
		for _, end := range slices.Backward(ends[1:]) {
			end(nil, true)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, submit(ctx), context.DeadlineExceeded)
		require.EqualValues(t, Width, c.Position())
		time.AfterFunc(time.Second, func() { ends[0](nil, true) })
		require.NoError(t, submit(t.Context()))
		at, _ := c.Checkpoint()
		require.EqualValues(t, Width, at)
	})
}

func TestACursorBeginsOnce(t *testing.T) {
	c, begun := &Cursor{}, 0
	c.Begun = func(*Window, Save) { begun++ }
	save := func(context.Context, int64) error { return nil }
	c.Begin(7, save)
	c.Begin(3, save)
	require.EqualValues(t, 7, c.Position())
	require.Equal(t, 1, begun)
}

func TestWithoutAFeedThereIsNoCursor(t *testing.T) {
	var none *Cursor
	require.Nil(t, Of(t.Context()))
	require.Zero(t, none.Position())
	none.SetTotal(1)
	none.SetAway(errors.New("away"))
	none.Begin(1, nil)
	no := errors.New("no")
	require.ErrorIs(t, none.At(1, func() error { return no }), no)
}

func TestASourceHearsTheEndOfEachCommand(t *testing.T) {
	for name, saved := range map[string]bool{"with a checkpoint": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c, no := &Cursor{}, errors.New("no")
			if saved {
				c.Begin(0, func(context.Context, int64) error { return nil })
			}
			var ends []End
			var heard []error
			submit := func() error {
				return c.Submit(t.Context(), func(as Terms) error {
					require.True(t, as.Heard)
					ends = append(ends, as.End)
					return nil
				})
			}
			for range 2 {
				require.NoError(t, c.Hear(func(err error) { heard = append(heard, err) }, submit))
			}
			require.NoError(t, c.Submit(t.Context(), func(as Terms) error {
				require.False(t, as.Heard)
				require.Equal(t, saved, as.End != nil)
				return nil
			}))
			ends[1](no, true)
			ends[0](nil, true)
			require.Equal(t, []error{no, nil}, heard)
			at, _ := c.Checkpoint()
			require.Equal(t, saved, at == 2)
		})
	}
}

func TestACommandHasWaitedSinceTheTimeThatItsSourceSays(t *testing.T) {
	c, ago := &Cursor{}, time.Now().Add(-time.Hour)
	var since []time.Time
	submit := func() error {
		return c.Submit(t.Context(), func(as Terms) error { since = append(since, as.Since); return nil })
	}
	require.NoError(t, c.Within(Span{Since: ago}, func() error { return c.Hear(func(error) {}, submit) }))
	require.NoError(t, submit())
	require.Panics(t, func() { _ = c.Within(Span{Since: ago}, func() error { panic("no") }) })
	require.NoError(t, submit())
	require.Equal(t, []time.Time{ago, {}, {}}, since)
	var none *Cursor
	no := errors.New("no")
	require.ErrorIs(t, none.Within(Span{Since: ago}, func() error { return no }), no)
}
