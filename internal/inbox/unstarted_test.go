package inbox

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
	d.StartWorker = func() { calls++ }
	d.AddUnstarted(2)
	require.Zero(t, calls)
	require.Equal(t, 2, d.accounts(0).Live)
	for cmd := range 2 {
		require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: cmd}))
		require.Equal(t, 1, calls, "one is on the way")
	}
	require.True(t, d.TakeCalled())
	require.False(t, d.TakeCalled())
	var s Member
	var tally Tally
	d.Join(&s, false)
	require.Equal(t, 2, d.accounts(0).Live)
	require.Equal(t, 1, d.Turn(&s, &tally, true), "a fair share")
	require.Equal(t, 2, calls, "it sends for the other")
}

// What a keeper may do with those who doze, and others with the inbox meanwhile, in any order.
func TestNoWorkerThatDozesIsLostOrCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newStaffed(0, Config{Name: "r", Capacity: 8, Batch: 2, Instances: 100, StreakEnds: time.Minute})
		var tally Tally
		var members []*Member // joined
		calls, coming := 0, 0
		over, cancel := context.WithCancel(context.Background())
		cancel()  // a full inbox is not waited for
		want := 0 // workers there should be
		d.StartWorker = func() { calls++ }
		join := func() {
			m := &Member{Wake: func() {}}
			d.Join(m, false)
			members = append(members, m)
		}
		t.Repeat(map[string]func(*rapid.T){
			"doze": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				d.AddUnstarted(n)
				want += n
			},
			"submit": func(*rapid.T) { _ = d.Submit(over, &command.Envelope{Cmd: 1}) },
			"answer a call": func(t *rapid.T) {
				if calls == 0 {
					t.Skip()
				}
				calls--
				if d.TakeCalled() {
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
				d.StartFailed()
				d.Leave(&Member{})
			},
			"another comes": func(*rapid.T) {
				want++
				join()
			},
			"turn": func(t *rapid.T) {
				if len(members) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(members)-1).Draw(t, "who")
				m := members[i]
				if !m.Ready() {
					t.Skip("it sleeps")
				}
				tally.OK = int(m.inHand)
				if d.Turn(m, &tally, true) >= 0 {
					return
				}
				d.Leave(m)
				members = append(members[:i], members[i+1:]...)
			},
			"shrink": func(t *rapid.T) {
				if want == 0 {
					t.Skip()
				}
				d.Shrink(1)
				want--
			},
			"the keeper goes": func(*rapid.T) {
				d.DropUnstarted()
				for _, m := range members {
					tally.OK = int(m.inHand)
					d.Book(m, &tally)
					d.Yield(m)
					d.Leave(m)
				}
				d.ForgetShrink()
				members, coming, want = nil, 0, 0 // calls to it may still be on their way
			},
			"": func(t *rapid.T) {
				require.Equal(t, want, d.live-d.excess-retired(members), "as many as there should be")
				require.Equal(t, len(members)+int(d.unstarted.waiting+d.unstarted.called+d.unstarted.coming), d.live)
				require.Equal(t, coming, int(d.unstarted.coming))
				require.GreaterOrEqual(t, calls, int(d.unstarted.called), "a call for each")
				if d.queue.Len() > 0 && d.waking == 0 && ready(members) == 0 {
					require.Zero(t, int(d.unstarted.waiting)+len(d.idle), "nobody sleeps while there is work")
				}
			},
		})
	})
}

func retired(members []*Member) (n int) {
	for _, m := range members {
		if m.retired {
			n++
		}
	}
	return n
}

// ready are those who will come by themselves.
func ready(members []*Member) (n int) {
	for _, m := range members {
		if m.Ready() {
			n++
		}
	}
	return n
}
