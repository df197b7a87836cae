package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// testInbox is an inbox with workers that only count how often they are woken.
type testInbox struct {
	*Inbox
	members []*Member
	woken   []int
}

func newTestInbox(workers int, cfg Config) *testInbox {
	in := &testInbox{Inbox: New(cfg), woken: make([]int, workers)}
	(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}).Attach(in.Inbox)
	in.Phases().Open()
	for i := range workers {
		m := &Member{Wake: func() { in.woken[i]++ }}
		in.Workers().Join(m, false)
		in.members = append(in.members, m)
	}
	return in
}

// A command comes while the only worker on its way has been asked to leave.
func TestAWorkerThatLeavesWakesAnotherForACommandThatCameMeanwhile(t *testing.T) {
	in := newTestInbox(2, Config{Name: "r", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	var tally Tally
	require.Zero(t, in.Turn(in.members[0], &tally, true))
	require.Zero(t, in.Turn(in.members[1], &tally, true))
	in.Workers().Shrink(1)
	require.Equal(t, []int{1, 0}, in.woken, "the one that has been idle for longest is to leave")
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
	require.Equal(t, []int{1, 0}, in.woken, "a worker is on its way already")
	require.Equal(t, -1, in.Turn(in.members[0], &tally, true))
	require.Equal(t, []int{1, 1}, in.woken, "it has another one woken")
	require.Equal(t, 1, in.Turn(in.members[1], &tally, true))
}

// The commands that a crash gives back are work for an idle worker.
func TestAnIdleWorkerIsWokenForCommandsThatACrashGaveBack(t *testing.T) {
	in := newTestInbox(2, Config{Name: "r", Capacity: 4, Batch: 4, StreakEnds: time.Minute})
	in.state.pace.limit = 4
	var tally Tally
	for cmd := range 3 {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: cmd}))
	}
	n := in.Turn(in.members[0], &tally, true)
	require.Equal(t, 2, n, "a fair share")
	require.Equal(t, 1, in.Turn(in.members[1], &tally, true))
	tally.OK = 1
	require.Zero(t, in.Turn(in.members[1], &tally, true), "idle")
	batch := in.members[0].Batch
	batch[0].Failed()
	in.Book(in.members[0], &tally, &Crashed{Culprit: &batch[0], Rest: batch[1:n], Err: ErrStopped})
	require.Equal(t, []int{0, 1}, in.woken)
	require.Equal(t, 1, in.Turn(in.members[1], &tally, true))
	require.Equal(t, 1, in.members[1].Batch[0].Load)
}

// A worker is woken because it may make an instance. Before it comes, another worker makes the only one, handles the command,
// and is parked.
func TestAWokenWorkerThatFindsNoInstanceWakesTheWorkerThatHasIt(t *testing.T) {
	for _, park := range []bool{false, true} {
		in := newTestInbox(2, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 1, StreakEnds: time.Minute})
		var tally Tally
		first, second := in.members[0], in.members[1]
		require.Zero(t, in.Turn(first, &tally, true))
		require.Zero(t, in.Turn(second, &tally, true))
		in.Workers().Leave(first)
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
		require.Equal(t, []int{0, 1}, in.woken, "it may make an instance")
		require.True(t, in.Instances().Claim(first))
		first.Instance = "the only one"
		in.Workers().Join(first, true)
		require.Equal(t, 1, in.Turn(first, &tally, true))
		tally.OK = 1
		require.Zero(t, in.Turn(first, &tally, true))
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 2}))
		require.Equal(t, []int{0, 1}, in.woken, "a worker is on its way already")
		require.Zero(t, in.Turn(second, &tally, park))
		require.Equal(t, []int{1, 1}, in.woken, "it has the worker woken that has the instance")
		require.Equal(t, 1, in.Turn(first, &tally, true))
	}
}

// The worker on its way finds that it may not make an instance any more, while an idle worker has one.
func TestAWorkerThatMayMakeNoInstanceWakesOneThatHasOne(t *testing.T) {
	in := newTestInbox(0, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 2, StreakEnds: time.Minute})
	in.woken = make([]int, 2)
	var tally Tally
	for i := range 2 {
		m := &Member{Wake: func() { in.woken[i]++ }}
		in.members = append(in.members, m)
		if i == 0 {
			require.True(t, in.Instances().Claim(m))
			m.Instance = "the one"
		}
		in.Workers().Join(m, false)
		require.Zero(t, in.Turn(m, &tally, true))
	}
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
	require.Equal(t, []int{0, 1}, in.woken, "the one that has been idle for the shortest time")
	in.Settings().Adjust(func(k *Knobs) { k.Instances = 1 })
	require.Zero(t, in.Turn(in.members[1], &tally, true))
	require.Equal(t, []int{1, 1}, in.woken)
	require.Equal(t, 1, in.Turn(in.members[0], &tally, true))
}

// deferringSender returns a worker of another inbox with DefersWakes: it wakes the called workers itself.
func deferringSender() *Member {
	return &Member{own: New(Config{Name: "before", Capacity: 1}), DefersWakes: true}
}

func TestAHandOverLeavesTheWakeUpToASenderThatDefersWakes(t *testing.T) {
	in := newTestInbox(1, Config{Name: "r", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	e := newTestInbox(1, Config{Name: "e", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	var tally Tally
	require.Zero(t, in.Turn(in.members[0], &tally, true))
	require.Zero(t, e.Turn(e.members[0], &tally, true))
	from := deferringSender()
	require.Equal(t, 1, in.Senders().HandOver(from, []command.Envelope{{Load: 1}}, 0, false, false))
	require.Same(t, in.members[0], from.Called)
	require.Equal(t, []int{0}, in.woken)
	require.True(t, in.members[0].Ready(), "the called worker is ready without being woken")
	require.Equal(t, 1, in.Senders().HandOver(from, []command.Envelope{{Load: 2}}, 0, false, false))
	require.Same(t, in.members[0], from.Called, "it counts as on its way: no other is called")
	require.Equal(t, 1, e.Senders().HandOver(from, []command.Envelope{{Load: 1}}, 0, false, false))
	require.Same(t, e.members[0], from.Called)
	require.Equal(t, []int{1}, in.woken, "only the last wake-up is left to the sender")
	require.Equal(t, []int{0}, e.woken)
}

func TestAHandOverWakesTheWorkerBeforeDroppedCommandsAreReported(t *testing.T) {
	in := newTestInbox(1, Config{Name: "r", Capacity: 1, Batch: 1, Overflow: DropNewest, StreakEnds: time.Minute})
	var tally Tally
	require.Zero(t, in.Turn(in.members[0], &tally, true))
	reported := 0
	in.Pipeline().Ended = func(Ending) {
		reported++
		require.Equal(t, []int{1}, in.woken)
	}
	from := deferringSender()
	require.Equal(t, 2, in.Senders().HandOver(from, []command.Envelope{{Load: 1}, {Load: 2}}, 0, false, false))
	require.Equal(t, 1, reported)
	require.Nil(t, from.Called)
}

func TestARetiringWorkerDoesNotStayParkedOnceItCarriesNothing(t *testing.T) {
	for name, ask := range map[string]func(in *Inbox, m *Member){
		"asked while idle":    func(in *Inbox, m *Member) { require.Zero(t, in.Turn(m, new(Tally), true)); in.Workers().Shrink(1) },
		"asked while working": func(in *Inbox, _ *Member) { in.Workers().Shrink(1) },
	} {
		t.Run(name, func(t *testing.T) {
			in := New(Config{Name: "r", Capacity: 8, Batch: 8})
			newPipeline().Attach(in)
			in.Phases().Open()
			m := &Member{Wake: func() {}}
			in.Workers().Join(m, false)
			in.Carry(m, 2)
			ask(in, m)
			require.Zero(t, in.Turn(m, new(Tally), true), "it stays while it carries commands")
			require.False(t, in.Carry(m, 0), "it must not stay parked")
			require.Equal(t, -1, in.Turn(m, new(Tally), true))
		})
	}
}

// A worker that came in its place would handle later commands, and what came of them would overtake what the worker carries.
func TestAWorkerThatCarriesCommandsKeepsItsInstance(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Instances, c.Batch = 1, 4 })
	in := tb.inboxes[0]
	in.Settings().Bind(nil)
	own := tb.addOwnWorker(in)
	tb.submitN(0, 1)
	_, cmds := own.turn(true)
	require.Len(t, cmds, 1)
	own.tally.Forwarded, own.n = 1, 0
	in.Carry(&own.Member, 1)
	_, cmds = own.next(true)
	require.Empty(t, cmds)

	in.Settings().Bind(tb.pool)
	visitor := tb.addWorker()
	tb.submitN(0, 1)
	require.Zero(t, visitor.woken)
	_, cmds = visitor.turn(true)
	require.Empty(t, cmds, "there is one instance, and the stage's own worker has it")
	require.Equal(t, 1, own.woken, "it may go on")
	require.True(t, in.Carry(&own.Member, 0) || own.Ready())
	_, cmds = own.turn(true)
	if len(cmds) == 0 {
		_, cmds = visitor.turn(true)
	}
	require.Len(t, cmds, 1)
}
