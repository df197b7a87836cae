package inbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// testbed is a pipeline with a few inboxes in a row and one shared pool that visits them.
type testbed struct {
	*Pipeline

	t       *testing.T
	inboxes []*Inbox
	pool    *SharedPool

	mu           sync.Mutex // guards ends
	ends         []Ending
	rounds       int // how often the end of a round was reported
	visitReports int // how often visits were reported
}

// newPipeline returns a pipeline without inboxes. As in a real pipeline its clock is never zero.
func newPipeline() *Pipeline {
	return &Pipeline{
		Base: time.Now().Add(-time.Second), Quiet: make(chan struct{}, 1), Ended: func(Ending) {},
		Reach:    func(from, to *Inbox) (e Edge, ok bool) { return Edge{Back: to.Place <= from.Place}, true },
		InFlight: func() int { return 0 }, Held: func() int { return 0 },
	}
}

// newTestbed returns a testbed with n inboxes that allow any number of instances, unless change says otherwise.
func newTestbed(t *testing.T, n int, change ...func(*Config)) *testbed {
	t.Helper()
	tb := &testbed{Pipeline: newPipeline(), t: t}
	tb.Ended = func(e Ending) {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.ends = append(tb.ends, e)
	}
	tb.RoundEnd = func(*SharedPool) { tb.rounds++ }
	tb.Visited = func(*SharedPool) { tb.visitReports++ }
	tb.InFlight = func() (n int) {
		for _, in := range tb.inboxes {
			n += in.Load()
		}
		return n
	}
	tb.pool = NewSharedPool("pool", tb.Pipeline)
	for i := range n {
		cfg := Config{Name: string(rune('A' + i)), Capacity: 64, Batch: 1, StreakEnds: time.Minute}
		for _, f := range change {
			f(&cfg)
		}
		in := New(cfg)
		in.Place = i
		tb.Pipeline.Attach(in)
		in.Phases().Open()
		in.Settings().Bind(tb.pool)
		tb.inboxes = append(tb.inboxes, in)
	}
	return tb
}

// submit submits commands to an inbox, from outside.
func (tb *testbed) submit(place int, cmds ...any) {
	tb.t.Helper()
	for _, cmd := range cmds {
		require.NoError(tb.t, tb.inboxes[place].Submit(tb.t.Context(), &command.Envelope{Load: cmd}))
	}
}

// submitN submits n commands, the numbers from 0.
func (tb *testbed) submitN(place, n int) {
	tb.t.Helper()
	for i := range n {
		tb.submit(place, i)
	}
}

// pass lets time go by, in a bubble. It takes each lock for the race detector: what was read so far comes before what the
// timers will write.
func (tb *testbed) pass(d time.Duration) {
	for _, in := range tb.inboxes {
		in.mu.Lock()
		in.mu.Unlock() //nolint:staticcheck // only for the order
	}
	time.Sleep(d)
	synctest.Wait()
}

// testWorker is a worker of a shared pool, or of a stage's own, without an actor.
type testWorker struct {
	Member
	st        *testbed
	pool      *SharedPool // nil: a stage's own worker
	own       *Inbox
	tally     Tally
	woken     int
	n         int // commands in hand
	lastInbox *Inbox
}

// addWorker adds a worker to the shared pool.
func (tb *testbed) addWorker() *testWorker {
	w := &testWorker{st: tb, pool: tb.pool}
	w.Wake = func() { w.woken++ }
	tb.pool.Join(&w.Member)
	return w
}

// addOwnWorker adds a worker of the stage's own to an inbox, as a worker's actor does.
func (tb *testbed) addOwnWorker(in *Inbox) *testWorker {
	w := &testWorker{st: tb, own: in}
	w.Wake = func() { w.woken++ }
	if in.Instances().Claim(&w.Member) {
		w.Instance = new(int)
	}
	in.Workers().Join(&w.Member, false)
	return w
}

// turn ends the commands in hand with success, and takes a turn. It returns the inbox and the commands of the new batch.
func (w *testWorker) turn(park bool) (*Inbox, []any) {
	w.st.t.Helper()
	w.tally.OK += w.n
	return w.next(park)
}

// next takes a turn. The outcomes of the last batch are in the tally already.
func (w *testWorker) next(park bool) (*Inbox, []any) {
	w.st.t.Helper()
	if w.pool != nil {
		w.lastInbox, w.n = w.pool.Turn(&w.Member, &w.tally, park)
	} else {
		w.lastInbox, w.n = w.own, w.own.Turn(&w.Member, &w.tally, park)
	}
	w.Surplus = nil
	if w.n <= 0 {
		n := w.n
		w.n = 0
		if n < 0 {
			return nil, []any{"gone"}
		}
		return nil, nil
	}
	if w.Instance == nil {
		require.True(w.st.t, w.lastInbox.equips(&w.Member), "a batch without an instance")
		w.Instance = new(int)
	}
	cmds := make([]any, 0, w.n)
	for _, e := range w.Batch[:w.n] {
		cmds = append(cmds, e.Load)
	}
	return w.lastInbox, cmds
}

// equips reports whether the worker has or may make an instance.
func (in *Inbox) equips(m *Member) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return m.Owns()
}

// forward hands the commands in hand over to another inbox, and returns how many that took.
func (w *testWorker) forward(to *Inbox, park bool) int {
	w.tally.Forwarded += w.n
	es := slices.Clone(w.Batch[:w.n])
	w.n = 0
	return to.Senders().HandOver(&w.Member, es, 0, w.pool != nil && to.Config().Waits(), park)
}

// crash crashes the handler at the first command in hand.
func (w *testWorker) crash(retry bool) {
	batch := slices.Clone(w.Batch[:w.n])
	batch[0].Failed()
	w.lastInbox.Book(&w.Member, &w.tally, &Crashed{Culprit: &batch[0], Rest: batch[1:], Retry: retry, Err: ErrStopped})
	w.n = 0
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
		w.lastInbox.Yield(&w.Member)
		w.lastInbox.Instances().Return(&w.Member)
	} else {
		w.own.Yield(&w.Member)
		w.own.Instances().Return(&w.Member)
	}
}

// trail takes n turns and returns where they led: the inbox's name for each command, "-" for a turn without commands.
func (w *testWorker) trail(n int) []string {
	w.st.t.Helper()
	var names []string
	for range n {
		in, cmds := w.turn(false)
		if in == nil {
			names = append(names, "-")
			continue
		}
		for range cmds {
			names = append(names, in.Name())
		}
	}
	return names
}

func (tb *testbed) polled(plan *controller.VisitPlan) {
	tb.pool.SetDispatch(controller.Polled)
	tb.pool.SetPlan(plan)
}

// tokensIn returns how many tokens a pool has.
func tokensIn(sp *SharedPool) int {
	_, _, tokens := sp.Inspect()
	return tokens
}

// submitTo submits a command to an inbox.
func submitTo(ctx context.Context, in *Inbox, cmd any) error {
	return in.Submit(ctx, &command.Envelope{Load: cmd})
}

// Rest has the inbox rest: shared pools do not serve it for so long.
func (in *Inbox) Rest(pause time.Duration) {
	var fx effects
	in.mu.Lock()
	in.state.leaveAlone(pause, &fx)
	in.unlock(&fx)
}
