package room

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

func TestOneWhoDozesIsCalledForTheFirstCommandAndNoOtherMeanwhile(t *testing.T) {
	d := newStaffed(0, Config{Name: "r", Capacity: 4, Batch: 4, Instances: 4, StreakEnds: time.Minute})
	calls := 0
	d.Call = func() { calls++ }
	d.Doze(2)
	require.Zero(t, calls)
	require.Equal(t, 2, d.sheet(0).Live)
	for cmd := range 2 {
		require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: cmd}))
		require.Equal(t, 1, calls, "one is on the way")
	}
	require.True(t, d.Fetch())
	require.False(t, d.Fetch())
	var s Seat
	var tally Tally
	d.Join(&s, false)
	require.Equal(t, 2, d.sheet(0).Live)
	require.Equal(t, 1, d.Turn(&s, &tally, true), "a fair share")
	require.Equal(t, 2, calls, "it sends for the other")
}

// What a keeper may do with those who doze, and others with the room meanwhile, in any order.
func TestNoWorkerThatDozesIsLostOrCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newStaffed(0, Config{Name: "r", Capacity: 8, Batch: 2, Instances: 100, StreakEnds: time.Minute})
		var tally Tally
		var seats []*Seat // joined
		calls, coming := 0, 0
		over, cancel := context.WithCancel(context.Background())
		cancel()  // a full room is not waited for
		want := 0 // workers there should be
		d.Call = func() { calls++ }
		join := func() {
			s := &Seat{Wake: func() {}}
			d.Join(s, false)
			seats = append(seats, s)
		}
		t.Repeat(map[string]func(*rapid.T){
			"doze": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				d.Doze(n)
				want += n
			},
			"submit": func(*rapid.T) { _ = d.Submit(over, &command.Envelope{Cmd: 1}) },
			"answer a call": func(t *rapid.T) {
				if calls == 0 {
					t.Skip()
				}
				calls--
				if d.Fetch() {
					coming++
				}
			},
			"one comes": func(t *rapid.T) {
				if coming == 0 {
					t.Skip()
				}
				coming--
				join()
			},
			"one cannot come": func(t *rapid.T) {
				if coming == 0 {
					t.Skip()
				}
				coming--
				want--
				d.Miss()
				d.Leave(&Seat{})
			},
			"another comes": func(*rapid.T) {
				want++
				join()
			},
			"turn": func(t *rapid.T) {
				if len(seats) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(seats)-1).Draw(t, "who")
				s := seats[i]
				if !s.Ready() {
					t.Skip("it sleeps")
				}
				tally.OK = int(s.hand)
				if d.Turn(s, &tally, true) >= 0 {
					return
				}
				d.Leave(s)
				seats = append(seats[:i], seats[i+1:]...)
			},
			"shrink": func(t *rapid.T) {
				if want == 0 {
					t.Skip()
				}
				d.Shrink(1)
				want--
			},
			"the keeper goes": func(*rapid.T) {
				d.Dismiss()
				for _, s := range seats {
					tally.OK = int(s.hand)
					d.Book(s, &tally)
					d.Yield(s)
					d.Leave(s)
				}
				d.Muster()
				seats, coming, want = nil, 0, 0 // calls to it may still be on their way
			},
			"": func(t *rapid.T) {
				require.Equal(t, want, d.live-d.excess-retired(seats), "as many as there should be")
				require.Equal(t, len(seats)+int(d.dozers.dozing+d.dozers.called+d.dozers.coming), d.live)
				require.Equal(t, coming, int(d.dozers.coming))
				require.GreaterOrEqual(t, calls, int(d.dozers.called), "a call for each")
				if d.queue.Len() > 0 && d.waking == 0 && ready(seats) == 0 {
					require.Zero(t, int(d.dozers.dozing)+len(d.idle), "nobody sleeps while there is work")
				}
			},
		})
	})
}

func retired(seats []*Seat) (n int) {
	for _, s := range seats {
		if s.retired {
			n++
		}
	}
	return n
}

// ready are those who will come by themselves.
func ready(seats []*Seat) (n int) {
	for _, s := range seats {
		if s.Ready() {
			n++
		}
	}
	return n
}
