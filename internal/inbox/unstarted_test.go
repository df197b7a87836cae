package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

func TestOneUnstartedWorkerAtATimeIsStartedForACommand(t *testing.T) {
	in := newTestInbox(0, Config{Name: "r", Capacity: 4, Batch: 4, Instances: 4, StreakEnds: time.Minute})
	calls := 0
	in.StartWorker = func() { calls++ }
	in.Workers().AddUnstarted(2)
	require.Zero(t, calls)
	require.Equal(t, 2, in.state.accounts(0).Workers.Live)
	for cmd := range 2 {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: cmd}))
		require.Equal(t, 1, calls, "one worker is on its way")
	}
	var m, other Member
	require.True(t, in.Workers().TakeCalled(&m))
	require.False(t, in.Workers().TakeCalled(&other))
	var tally Tally
	in.Workers().Join(&m, false)
	require.Equal(t, 2, in.state.accounts(0).Workers.Live)
	require.Equal(t, 1, in.Turn(&m, &tally, true), "a fair share")
	require.Equal(t, 2, calls, "it has the other one started")
}

// All that the supervisor of the stage may do with unstarted workers, and others with the inbox meanwhile, in any order.
func TestNoUnstartedWorkerIsLostOrCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newTestInbox(0, Config{Name: "r", Capacity: 8, Batch: 2, Instances: 100, StreakEnds: time.Minute})
		var tally Tally
		var members []*Member // joined
		calls := 0
		var coming []*Member
		over, cancel := context.WithCancel(context.Background())
		cancel()  // so that Submit does not wait at a full inbox
		want := 0 // how many workers there should be
		in.StartWorker = func() { calls++ }
		join := func() {
			m := &Member{Wake: func() {}}
			in.Workers().Join(m, false)
			members = append(members, m)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add unstarted": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				in.Workers().AddUnstarted(n)
				want += n
			},
			"submit": func(*rapid.T) { _ = in.Submit(over, &command.Envelope{Load: 1}) },
			"take a call": func(t *rapid.T) {
				if calls == 0 {
					t.Skip()
				}
				calls--
				if m := (&Member{Wake: func() {}}); in.Workers().TakeCalled(m) {
					coming = append(coming, m)
				}
			},
			"one starts": func(t *rapid.T) {
				if len(coming) == 0 {
					t.Skip()
				}
				in.Workers().Join(coming[0], false)
				members, coming = append(members, coming[0]), coming[1:]
			},
			"one cannot start": func(t *rapid.T) {
				if len(coming) == 0 {
					t.Skip()
				}
				want--
				in.Workers().Leave(coming[0])
				coming = coming[1:]
			},
			"another joins": func(*rapid.T) {
				want++
				join()
			},
			"turn": func(t *rapid.T) {
				if len(members) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(members)-1).Draw(t, "worker")
				m := members[i]
				if !m.Ready() {
					t.Skip("it is parked")
				}
				tally.OK = int(m.custody.inHand)
				if in.Turn(m, &tally, true) >= 0 {
					return
				}
				in.Workers().Leave(m)
				members = append(members[:i], members[i+1:]...)
			},
			"shrink": func(t *rapid.T) {
				if want == 0 {
					t.Skip()
				}
				in.Workers().Shrink(1)
				want--
			},
			"all leave": func(*rapid.T) {
				in.Workers().DropUnstarted()
				for _, m := range members {
					tally.OK = int(m.custody.inHand)
					in.Book(m, &tally, nil)
					in.Yield(m)
					in.Workers().Leave(m)
				}
				in.Workers().ForgetShrink()
				for _, m := range coming {
					in.Workers().Leave(m)
				}
				members, coming, want = nil, nil, 0 // calls to StartWorker may still be unanswered
			},
			"": func(t *rapid.T) {
				require.Equal(t, want, in.state.workers.Live()-in.state.workers.Excess(), "as many as there should be")
				require.Equal(t, len(members)+len(coming)+int(in.state.workers.Inspect().Unstarted), in.state.workers.Live())
				require.False(t, in.state.workers.Inspect().Called && (in.state.workers.Inspect().Unstarted == 0 || calls == 0), "one call for the called worker")
				if in.state.queue.Len() > 0 && in.state.workers.Inspect().Waking == 0 && !in.state.workers.Inspect().Called && countReady(members) == 0 {
					require.Zero(t, int(in.state.workers.Inspect().Unstarted)+len(in.state.workers.Inspect().Idle), "no worker is idle or unstarted while there is work")
				}
			},
		})
	})
}

// countReady counts the workers that come for a turn without being woken.
func countReady(members []*Member) (n int) {
	for _, m := range members {
		if m.Ready() {
			n++
		}
	}
	return n
}
