package inbox

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// suspendModel is an inbox with handlers that suspend, and a model of it made of lists. Commands are numbers; the run of a
// suspended one is a pointer to its number.
type suspendModel struct {
	*testInbox
	t *rapid.T

	tallies        []Tally
	todo           [][]int // what each worker has still to do
	crashed        []bool  // the worker has crashed, and joins again with its next turn
	next           int
	fresh, woken   []int
	suspendedCmds  []int
	ok, dead, shed int
	instances      int
	paused, halted bool
	deadLetters    []any
}

func newSuspendModel(t *rapid.T, workers int) *suspendModel {
	cfg := Config{
		Name: "r", Capacity: rapid.IntRange(1, 8).Draw(t, "capacity"), Batch: rapid.IntRange(1, 6).Draw(t, "batch"),
		Instances: rapid.IntRange(1, 10).Draw(t, "instances"), Overflow: DropOldest, StreakEnds: time.Minute,
	}
	model := &suspendModel{t: t, instances: cfg.Instances}
	model.testInbox = &testInbox{Inbox: New(cfg)}
	model.state.pace.limit = cfg.Batch
	model.Settings().SetSuspends()
	(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(e Ending) { model.deadLetters = append(model.deadLetters, e.Cmd) }}).Attach(model.Inbox)
	model.Phases().Open()
	for range workers {
		model.members = append(model.members, &Member{Wake: func() {}})
	}
	for _, m := range model.members {
		model.Instances().Claim(m)
		model.Workers().Join(m, false)
	}
	model.tallies, model.todo, model.crashed = make([]Tally, workers), make([][]int, workers), make([]bool, workers)
	return model
}

func (model *suspendModel) submit(t *rapid.T) {
	if model.halted {
		return
	}
	if len(model.fresh) >= model.state.cfg.Capacity {
		model.shed++
		model.fresh = model.fresh[1:]
	}
	model.next++
	require.NoError(t, model.Submit(t.Context(), &command.Envelope{Load: model.next}))
	model.fresh = append(model.fresh, model.next)
}

// underWay is how many commands are started and not ended. The number of instances bounds it.
func (model *suspendModel) underWay() (n int) {
	for _, h := range model.todo {
		n += len(h)
	}
	return n + len(model.suspendedCmds) + len(model.woken)
}

func (model *suspendModel) due() int {
	switch {
	case model.halted:
		return 0
	case model.paused:
		return len(model.woken)
	default:
		return len(model.woken) + max(min(len(model.fresh), model.instances-model.underWay()-model.unbooked()), 0)
	}
}

// unbooked is how many commands have ended without being booked by their workers yet.
func (model *suspendModel) unbooked() (n int) {
	for _, t := range model.tallies {
		n += t.OK
	}
	return n
}

// turn has a worker with nothing left to do take a turn.
func (model *suspendModel) turn(t *rapid.T) {
	i := model.worker(t, func(h []int) bool { return len(h) == 0 })
	if i < 0 || !model.members[i].Ready() && !model.crashed[i] {
		return // a parked worker comes when it is woken
	}
	m := model.members[i]
	if model.crashed[i] {
		model.Instances().Return(m)
		model.Instances().Claim(m)
		model.Workers().Join(m, true)
		model.crashed[i] = false
	}
	model.Book(m, &model.tallies[i], nil)
	due, going := model.due(), len(model.woken)
	n := model.Turn(m, &model.tallies[i], true)
	if due == 0 {
		require.Zero(t, n)
		return
	}
	if n == 0 {
		require.True(t, model.state.instances.Busy() >= model.instances || !m.Owns() && !model.state.instances.Available(model.state.knobs.Instances), "the worker was given nothing, and could have been")
		return
	}
	require.LessOrEqual(t, n, min(due, model.state.cfg.Batch))
	took := 0
	for _, e := range m.Batch[:n] {
		if e.Woken() {
			cmd := *e.Load.(*int)
			require.Equal(t, model.woken[0], cmd)
			model.woken, took = model.woken[1:], took+1
			model.todo[i] = append(model.todo[i], cmd)
			continue
		}
		require.Equal(t, model.fresh[0], e.Load)
		model.fresh = model.fresh[1:]
		model.todo[i] = append(model.todo[i], e.Load.(int))
	}
	require.GreaterOrEqual(t, took, min(going, n)-1, "woken commands come first, except for one place in the batch")
}

// worker draws a worker for which so returns true of what it has to do, -1 if there is none.
func (model *suspendModel) worker(t *rapid.T, so func([]int) bool) int {
	var fit []int
	for i, h := range model.todo {
		if so(h) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return rapid.SampledFrom(fit).Draw(t, "worker")
}

func hasWork(h []int) bool { return len(h) > 0 }

func (model *suspendModel) finish(t *rapid.T) {
	if i := model.worker(t, hasWork); i >= 0 {
		model.todo[i] = model.todo[i][1:]
		model.tallies[i].OK++
		model.ok++
	}
}

func (model *suspendModel) suspend(t *rapid.T) {
	if i := model.worker(t, hasWork); i >= 0 {
		model.suspendedCmds = append(model.suspendedCmds, model.todo[i][0])
		model.todo[i] = model.todo[i][1:]
		model.tallies[i].Suspended++
	}
}

func (model *suspendModel) wakeAll(t *rapid.T) {
	for range len(model.suspendedCmds) {
		model.wake(t)
	}
}

func (model *suspendModel) wake(t *rapid.T) {
	if len(model.suspendedCmds) == 0 {
		return
	}
	i := rapid.IntRange(0, len(model.suspendedCmds)-1).Draw(t, "which")
	cmd := model.suspendedCmds[i]
	model.Batches().Resume(command.Envelope{Load: &cmd})
	if model.halted {
		return
	}
	model.woken = append(model.woken, cmd)
	model.suspendedCmds = slices.Delete(model.suspendedCmds, i, i+1)
}

// crash crashes a worker at its next command. Some of the others in its batch may have been started before.
func (model *suspendModel) crash(t *rapid.T) {
	i := model.worker(t, hasWork)
	if i < 0 {
		return
	}
	todo, m := model.todo[i], model.members[i]
	last := 0
	for last < len(m.Batch) && m.Batch[last].Load != nil {
		last++
	}
	rest := m.Batch[last-len(todo)+1 : last]
	culprit := command.Envelope{Load: todo[0]}
	culprit.Failed()
	var fresh, started []int
	for _, e := range rest {
		if run, ok := e.Load.(*int); ok {
			started = append(started, *run)
		} else {
			fresh = append(fresh, e.Load.(int))
		}
	}
	model.Book(m, &model.tallies[i], &Crashed{Culprit: &culprit, Rest: slices.Clone(rest), Err: ErrStopped})
	model.Yield(m)
	model.todo[i], model.crashed[i] = nil, true
	model.dead++
	if model.halted {
		model.suspendedCmds = append(model.suspendedCmds, started...)
		model.dead += len(fresh)
		return
	}
	model.fresh, model.woken = append(fresh, model.fresh...), append(started, model.woken...)
}

func (model *suspendModel) pause(t *rapid.T) {
	model.paused = rapid.Bool().Draw(t, "paused")
	model.Settings().Adjust(func(k *Knobs) { k.Paused = model.paused })
}

func (model *suspendModel) resize(t *rapid.T) {
	model.instances = rapid.IntRange(1, 10).Draw(t, "instances")
	model.Settings().Adjust(func(k *Knobs) { k.Instances = model.instances })
}

// halt halts the inbox, in one case of ten.
func (model *suspendModel) halt(t *rapid.T) {
	if model.halted || rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	model.halted = true
	model.Phases().Halt()()
	model.dead += len(model.fresh)
	model.suspendedCmds = append(model.suspendedCmds, model.woken...)
	model.fresh, model.woken = nil, nil
}

// finishOutside ends a suspended command of a halted inbox without a worker.
func (model *suspendModel) finishOutside(t *rapid.T) {
	if !model.halted || len(model.suspendedCmds) == 0 {
		return
	}
	var m Member
	model.Batches().TakeSuspended(&m)
	model.Book(&m, &Tally{OK: 1}, nil)
	model.ok++
	model.suspendedCmds = model.suspendedCmds[1:]
}

func (model *suspendModel) check(t *rapid.T) {
	s := Snapshot([]*Inbox{model.Inbox})[0]
	unbooked, unbookedSuspended := model.unbooked(), 0
	for i := range model.tallies {
		unbookedSuspended += model.tallies[i].Suspended
	}
	require.Equal(t, len(model.fresh), s.Queue.Queued)
	require.Equal(t, model.underWay()+unbooked, s.Queue.InHand)
	require.EqualValues(t, model.ok-unbooked, s.Counts.OK)
	require.EqualValues(t, model.dead, s.Counts.DeadLettered)
	require.EqualValues(t, model.shed, s.Counts.Shed)
	require.Equal(t, s.Counts.Submitted, s.Counts.OK+s.Counts.Shed+s.Counts.DeadLettered+uint64(s.Queue.Queued+s.Queue.InHand))
	if unbookedSuspended == 0 {
		require.Equal(t, len(model.suspendedCmds), s.Queue.Suspended)
	}
	require.Equal(t, model.due(), model.Inbox.state.available())
	idle := len(model.state.workers.Inspect().Idle) > 0
	if model.Inbox.state.available() > 0 && model.state.instances.Busy() < model.instances && idle && model.state.workers.Inspect().Waking == 0 {
		able := slices.ContainsFunc(model.state.workers.Inspect().Idle, model.state.canWork)
		require.False(t, able, "there is work, and no worker is on its way")
	}
	for _, cmd := range model.deadLetters {
		require.IsType(t, 0, cmd, "a dead letter has the command that was submitted")
	}
}

func TestSuspendedCommandsAreAccountedForAsTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := newSuspendModel(t, rapid.IntRange(1, 3).Draw(t, "workers"))
		t.Repeat(map[string]func(*rapid.T){
			"submit": model.submit, "turn": model.turn, "turn again": model.turn, "finish": model.finish, "suspend": model.suspend, "wake": model.wake, "wake all": model.wakeAll,
			"suspend again": model.suspend, "crash": model.crash, "pause": model.pause, "resize": model.resize, "halt": model.halt, "finish outside": model.finishOutside, "": model.check,
		})
	})
}

func TestCommandsGivenBackByACrashGoBeforeAllOthersOfTheirKind(t *testing.T) {
	in := New(Config{Name: "r", Capacity: 8, Batch: 8, Instances: 9, StreakEnds: time.Minute})
	in.state.pace.limit = 4
	in.Settings().SetSuspends()
	(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}).Attach(in)
	in.Phases().Open()
	m := &Member{Wake: func() {}}
	in.Instances().Claim(m)
	in.Workers().Join(m, false)
	var tally Tally
	for cmd := range 8 {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: cmd}))
	}
	for range 2 {
		tally.Suspended = in.Turn(m, &tally, true)
	}
	require.Zero(t, in.Turn(m, &tally, true))
	for run := range 6 {
		in.Batches().Resume(command.Envelope{Load: run})
	}
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: "a"}))
	require.Equal(t, 4, in.Turn(m, &tally, true))
	require.Equal(t, []any{0, 1, 2, "a"}, commands(m.Batch[:4]))
	in.Book(m, &tally, &Crashed{Culprit: &m.Batch[0], Rest: slices.Clone(m.Batch[1:4]), Err: ErrStopped})
	in.Instances().Return(m)
	in.Instances().Claim(m)
	in.Workers().Join(m, true)
	require.Equal(t, 4, in.Turn(m, &tally, true))
	require.Equal(t, []any{1, 2, 3, 4}, commands(m.Batch[:4]))
}

func commands(es []command.Envelope) (all []any) {
	for _, e := range es {
		all = append(all, e.Load)
	}
	return all
}
