package version

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/inbox"
)

// counter is an instance whose state is a number.
type counter struct {
	Instance

	of    *Version
	start func() error
	saved *Saved
	n     int
}

func (c *counter) Start(context.Context) error { return c.start() }
func (c *counter) Stops() bool                 { return false }
func (c *counter) Of() *Version                { return c.of }
func (c *counter) Version() string             { return "" }
func (c *counter) Saved() *Saved               { return c.saved }
func (c *counter) Suspends() bool              { return false }
func (c *counter) Many() bool                  { return false }

// counters returns a version of counters that call start when they start.
func counters(s *Series, start func() error) *Version {
	return s.New(func(of *Version) Instance {
		c := &counter{of: of, start: start}
		c.saved = &Saved{
			snapshot: func() any { return c.n },
			restore:  func(state any) error { c.n = state.(int); return nil },
			every:    1,
		}
		return c
	}, false)
}

func TestAnInstanceThatStopsWhileAnotherOneStartsLeavesItsStateToIt(t *testing.T) {
	s := &Series{Inbox: inbox.New(inbox.Config{Name: "count"}), Log: slog.New(slog.DiscardHandler)}
	meanwhile := func() error { return nil }
	v := counters(s, func() error { return meanwhile() })

	first, err := v.acquire(t.Context())
	require.NoError(t, err)
	first.(*counter).n = 7
	first.Saved().Note(1)
	meanwhile = func() error { s.Stop(first); return nil }
	second, err := v.acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, second.(*counter).n)
	require.Equal(t, 1, v.live)
}

func TestAnInstanceThatDoesNotStartLeavesTheStateToTheNext(t *testing.T) {
	s := &Series{Inbox: inbox.New(inbox.Config{Name: "count"}), Log: slog.New(slog.DiscardHandler)}
	var fails error
	v := counters(s, func() error { return fails })
	v.keep(7)

	fails = errors.New("not yet")
	_, err := v.acquire(t.Context())
	require.ErrorIs(t, err, fails)
	require.Zero(t, v.live)
	fails = nil
	inst, err := v.acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, inst.(*counter).n)
}

// A worker may take its next instance while versions are being replaced: after it has stopped one of an old version, or after a
// crash. With one instance no version may begin anew.
func TestAnInstanceOfANewVersionBeginsWithTheStateOfTheOld(t *testing.T) {
	ways := map[string]func(s *Series, inst Instance) Instance{
		"renewed": func(s *Series, inst Instance) Instance { return s.Renew(inst) },
		"crashed": func(s *Series, inst Instance) Instance {
			KeepCrashed(inst)
			inst.Of().Release()
			return nil
		},
	}
	for name, replace := range ways {
		t.Run(name, func(t *testing.T) {
			s := &Series{Inbox: inbox.New(inbox.Config{Name: "count"}), Log: slog.New(slog.DiscardHandler), Context: t.Context()}
			start := func() error { return nil }
			s.Install(counters(s, start))
			inst, err := s.NewInstance(t.Context())
			require.NoError(t, err)
			inst.(*counter).n = 7
			inst.Saved().Note(1)

			const upgrades = 5000
			upgraded := make(chan struct{})
			go func() {
				defer close(upgraded)
				for range upgrades {
					s.Replace(counters(s, start))
				}
			}()
			for over := false; !over; {
				select {
				case <-upgraded:
					over = true
				default:
				}
				if inst = replace(s, inst); inst == nil {
					inst, err = s.NewInstance(t.Context())
					require.NoError(t, err)
				}
				require.Equal(t, 7, inst.(*counter).n)
				runtime.Gosched()
			}
			<-upgraded
		})
	}
}
