package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

// handledBy counts what stages have handled.
type handledBy struct {
	mu sync.Mutex
	of map[string]int
}

func (t *handledBy) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[name]++
}

func (t *handledBy) get(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[name]
}

func (t *handledBy) all() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.of)
}

// scans is a pipeline of three stages in one process of two.
type scans struct {
	*pipeline.Pipeline
	load  *stage.Flow[int, int]
	ocr   *stage.Flow[int, string]
	index *stage.Stage[string]
	at    *brokerProcess
}

// newScans makes the pipeline as a process has it. Done counts what each stage has handled, with the name of the process.
func newScans(t *testing.T, b *broker, process string, done *handledBy, parts ...pipeline.Part) *scans {
	t.Helper()
	s := &scans{at: b.process()}
	s.load = stage.Map("load", func(_ context.Context, n int) (int, error) {
		done.add("load @ " + process)
		return n * 2, nil
	})
	s.ocr = stage.Map("ocr", func(_ context.Context, n int) (string, error) {
		done.add("ocr @ " + process)
		return fmt.Sprint("page ", n), nil
	})
	s.index = stage.Func("index", func(_ context.Context, page string) behaviour.Outcome {
		done.add("index @ " + process)
		done.add(page)
		return behaviour.OK(page)
	})
	all := []pipeline.Part{
		quiet, s.load.To(s.ocr), s.ocr.To(s.index), pipeline.Assign("front", "load", "index"), pipeline.Assign("ocr", "ocr"),
	}
	if process != "" {
		all = append(all, pipeline.RunsHere(s.at, strings.Split(process, ",")...))
	}
	p, err := pipeline.New("scans", append(all, parts...)...)
	require.NoError(t, err)
	s.Pipeline = p
	return s
}

func (s *scans) start(t *testing.T) *scans {
	t.Helper()
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		_ = s.Stop(context.Background())
		assert.True(t, s.Snapshot().Balanced(), s.Snapshot().Law())
	})
	return s
}

func inTime(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, time.Millisecond, what)
}

func TestTwoProcessesRunTheStagesThatAreMappedToThem(t *testing.T) {
	t.Parallel()
	b, done := newBroker(), &handledBy{}
	front := newScans(t, b, "front", done).start(t)
	newScans(t, b, "ocr", done).start(t)
	const n = 1000
	for i := range n {
		require.NoError(t, front.load.Submit(t.Context(), i))
	}
	inTime(t, "all are indexed", func() bool { return done.get("index @ front") == n })
	all := done.all()
	assert.Equal(t, n, all["load @ front"])
	assert.Equal(t, n, all["ocr @ ocr"])
	assert.Zero(t, all["ocr @ front"]+all["load @ ocr"]+all["index @ ocr"])
	for i := range n {
		assert.Equal(t, 1, all[fmt.Sprint("page ", 2*i)])
	}
	inTime(t, "all are acknowledged", func() bool { left, balanced := b.left(); return left == 0 && balanced })
	of := map[string]stage.Snapshot{}
	for _, s := range front.Snapshot().Stages {
		of[s.Name] = s
	}
	assert.Equal(t, "ocr", of["ocr"].Process)
	assert.Empty(t, of["load"].Process)
	assert.EqualValues(t, n, of["ocr"].Counts.OK)
	assert.Equal(t, 1, of["ocr"].Workers.Max)
}

func TestAProcessMayJoinLater(t *testing.T) {
	t.Parallel()
	b, done := newBroker(), &handledBy{}
	front := newScans(t, b, "front", done).start(t)
	for i := range 100 {
		require.NoError(t, front.load.Submit(t.Context(), i))
	}
	inTime(t, "all are sent", func() bool { sent, _ := b.of("ocr"); return sent == 100 })
	newScans(t, b, "ocr", done).start(t)
	newScans(t, b, "ocr", done).start(t)
	inTime(t, "all are indexed", func() bool { return done.get("index @ front") == 100 })
}

func TestAllProcessesInOnePlaceAreOneProcess(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"", "front,ocr"} {
		b, done := newBroker(), &handledBy{}
		s := newScans(t, b, process, done).start(t)
		got, err := stage.Call[string](t.Context(), s.load.Stage, 21)
		require.NoError(t, err)
		assert.Equal(t, "page 42", got)
		sent, _ := b.of("ocr")
		assert.Zero(t, sent)
	}
}

func TestACommandThatWasSentIsHandledAgainIfItsProcessIsKilled(t *testing.T) {
	t.Parallel()
	b, done := newBroker(), &handledBy{}
	front := newScans(t, b, "front", done).start(t)
	held := make(chan struct{})
	defer close(held)
	blocked := stage.Map("ocr", func(context.Context, int) (string, error) { <-held; return "", nil }, stage.Workers(1, 1))
	load := stage.Map("load", func(_ context.Context, n int) (int, error) { return n, nil })
	index := stage.Func("index", func(context.Context, string) behaviour.Outcome { return behaviour.OK(nil) })
	victim := b.process()
	p, err := pipeline.New("scans", quiet, load.To(blocked), blocked.To(index), pipeline.Grace(time.Nanosecond),
		pipeline.Assign("front", "load", "index"), pipeline.Assign("ocr", "ocr"), pipeline.RunsHere(victim, "ocr"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for i := range 10 {
		require.NoError(t, front.load.Submit(t.Context(), i))
	}
	inTime(t, "the victim has some", func() bool { return p.Snapshot().InFlight > 0 })
	victim.kill()
	newScans(t, b, "ocr", done).start(t)
	inTime(t, "all are indexed", func() bool { return done.get("index @ front") == 10 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(ended))
}

func TestATicketEndsWhenAllThatWasEmittedIsSent(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.setAway(true)
	far := stage.Func("far", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	near := stage.Func("near", func(ctx context.Context, n int) behaviour.Outcome {
		if err := behaviour.Emit(ctx, far, n); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK("emitted")
	})
	p, err := pipeline.New("test", quiet, near, far, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(b.process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	ticket, err := near.Ask(t.Context(), 1)
	require.NoError(t, err)
	select {
	case <-ticket.Done():
		t.Fatal("the ticket has ended before the command was sent")
	case <-time.After(20 * time.Millisecond):
	}
	b.setAway(false)
	got, err := ticket.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "emitted", got)
	sent, _ := b.of("far")
	assert.Equal(t, 1, sent)
}

func TestACallerThatWaitsForAResultOfAnotherProcessHasAnError(t *testing.T) {
	t.Parallel()
	s := newScans(t, newBroker(), "front", &handledBy{}).start(t)
	_, err := stage.Call[string](t.Context(), s.load.Stage, 1) // load forwards to ocr
	require.ErrorIs(t, err, stage.ErrElsewhere)
	assert.ErrorContains(t, err, `stage "ocr": runs in process "ocr"`)
	_, err = stage.Call[string](t.Context(), s.ocr.Stage, 1)
	require.ErrorIs(t, err, stage.ErrElsewhere)
}

func TestNoCommandCanBeSentToAStageThatNoOtherProcessLeadsTo(t *testing.T) {
	t.Parallel()
	b := newBroker()
	hidden := stage.Func("hidden", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	open := stage.Map("open", func(_ context.Context, n int) (int, error) { return n, nil })
	near := stage.Func("near", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(hidden, n) })
	p, err := pipeline.New("test", quiet, near, open.To(hidden), pipeline.Assign("a", "near"), pipeline.Assign("b", "open", "hidden"),
		pipeline.RunsHere(b.process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	err = hidden.Submit(t.Context(), 1)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	assert.ErrorContains(t, err, "pipeline.Entry")
	_, err = stage.Call[any](t.Context(), near, 1)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.NoError(t, open.Submit(t.Context(), 1))
	require.NoError(t, p.Stop(context.Background()))
	sent, _ := b.of("open")
	assert.Equal(t, 1, sent)
	assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}

func TestNothingOfTheUserIsCalledForAStageThatRunsElsewhere(t *testing.T) {
	t.Parallel()
	never := func(what string) { t.Error(what + " is called") }
	each := stage.Each("each", func() *spyInstance { never("a factory"); return nil },
		stage.Middleware(func(context.Context, string, any, behaviour.Func[any]) behaviour.Outcome {
			never("a middleware")
			return behaviour.OK(nil)
		}),
		stage.ExpiresAt(func(int) time.Time { never("ExpiresAt"); return time.Time{} }), stage.Retry(stage.RetryPolicy{Attempts: 5}),
		stage.Timeout(time.Microsecond))
	guarded := stage.Func("guarded", func(context.Context, int) behaviour.Outcome { never("a handler"); return behaviour.OK(nil) },
		stage.Guard("int", func(func(string) guard.Counters) bool { never("a guard"); return true }))
	rated := stage.Func("rated", func(context.Context, int) behaviour.Outcome { never("a handler"); return behaviour.OK(nil) },
		stage.RateBy(func(int) string { never("the key of a rate"); return "" }, 1, time.Second, 1))
	sorted := stage.Func("sorted", func(context.Context, int) behaviour.Outcome { never("a handler"); return behaviour.OK(nil) },
		stage.Discipline(queue.DeadlineOf(func(int) time.Time { never("the key of a discipline"); return time.Time{} })))
	suspending := stage.Coroutine("suspending", func(behaviour.Suspender, int) behaviour.Outcome {
		never("a coroutine")
		return behaviour.OK(nil)
	})
	keyed := stage.Keyed("keyed", func(n int) int { return n % 10 }, func(int) *spyInstance { never("a factory"); return nil })
	ordered := stage.Func("ordered", func(context.Context, int) behaviour.Outcome { never("a handler"); return behaviour.OK(nil) },
		stage.Ordered())
	home := stage.Func("home", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	grouped := stage.Func("grouped", func(context.Context, int) behaviour.Outcome { never("a handler"); return behaviour.OK(nil) })
	all := []*stage.Stage[int]{each, guarded, rated, sorted, suspending, keyed, ordered, grouped}
	b := newBroker()
	p, err := pipeline.New("test", quiet, each, guarded, rated, sorted, suspending, keyed, ordered, home,
		pipeline.Group("pool", 1, 2, grouped),
		pipeline.ControlFor("pool", policy.Fixed{}),
		pipeline.Feed("feed", each, func(context.Context, func(int) error) error { never("a source"); return nil }),
		pipeline.Entry(each, guarded, rated, sorted, suspending, keyed, ordered, grouped, home),
		pipeline.Assign("away", "each", "guarded", "rated", "sorted", "suspending", "keyed", "ordered", "pool"), pipeline.Assign("home", "home"),
		pipeline.RunsHere(b.process(), "home"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	for i := range 300 {
		for _, s := range all {
			require.NoError(t, s.Submit(t.Context(), i))
		}
	}
	_, err = each.Upgrade(t.Context(), func() behaviour.Behaviour[int] { never("an upgrade"); return nil })
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.NoError(t, p.Stop(context.Background()))
	for _, s := range all {
		sent, _ := b.of(s.Name())
		assert.Equal(t, 300, sent, s.Name())
	}
	assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}

// spyInstance is an instance that does nothing.
type spyInstance struct{}

func (*spyInstance) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }

func TestAFullCarrierHoldsUpTheStagesBeforeIt(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.setAway(true)
	far := stage.Sink("far", func(context.Context, int) error { return nil }, stage.Capacity(4))
	near := stage.Map("near", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Capacity(4), stage.Workers(1, 1))
	p, err := pipeline.New("test", quiet, near.To(far), pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(b.process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	accepted := 0
	for near.Submit(ctx, accepted) == nil {
		accepted++
	}
	assert.Less(t, accepted, 32)
	b.setAway(false)
	require.NoError(t, p.Stop(context.Background()))
	sent, _ := b.of("far")
	assert.Equal(t, accepted, sent)
}

func TestWhatCouldNotBeSentBeforeAHardStopIsFedAgain(t *testing.T) {
	t.Parallel()
	b, done := newBroker(), &handledBy{}
	ocr := newScans(t, b, "ocr", done)
	front := newScans(t, b, "front", done).start(t)
	for i := range 10 {
		require.NoError(t, front.load.Submit(t.Context(), i))
	}
	inTime(t, "all are sent", func() bool { sent, _ := b.of("ocr"); return sent == 10 })
	b.setAway(true)
	require.NoError(t, ocr.Start(t.Context()))
	inTime(t, "all are at the way out", func() bool { return ocr.Snapshot().InFlight == 10 && done.get("ocr @ ocr") == 10 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = ocr.Stop(ended)
	assert.True(t, ocr.Snapshot().Balanced(), ocr.Snapshot().Law())
	b.setAway(false)
	newScans(t, b, "ocr", done).start(t)
	inTime(t, "all are indexed", func() bool { return done.get("index @ front") == 10 })
	_, buried := b.of("ocr")
	assert.Zero(t, buried)
}

func TestCommandsOfOneKeyKeepTheirOrderAcrossProcesses(t *testing.T) {
	t.Parallel()
	b := newBroker()
	var mu sync.Mutex
	seen := map[string][]int{}
	type item struct {
		key string
		n   int
	}
	var first *pipeline.Pipeline
	var router *stage.Stage[item]
	for i, process := range []string{"a", "b", "b", "b"} {
		keyed := stage.Keyed("keyed", func(x item) string { return x.key }, func(string) behaviour.Behaviour[item] {
			return behaviour.Func[item](func(_ context.Context, x item) behaviour.Outcome {
				mu.Lock()
				defer mu.Unlock()
				seen[x.key] = append(seen[x.key], x.n)
				return behaviour.OK(nil)
			})
		})
		route := stage.Func("route", func(_ context.Context, x item) behaviour.Outcome { return behaviour.Forward(keyed, x) },
			stage.Workers(1, 1))
		p, err := pipeline.New("test", quiet, route, keyed, pipeline.Assign("a", "route"), pipeline.Assign("b", "keyed"),
			pipeline.RunsHere(b.process(), process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		defer func() { _ = p.Stop(context.Background()) }()
		if i == 0 {
			first, router = p, route
		}
	}
	const keys, each = 7, 200
	for n := range each {
		for k := range keys {
			require.NoError(t, router.Submit(t.Context(), item{strconv.Itoa(k), n}))
		}
	}
	require.NoError(t, first.Stop(context.Background()))
	inTime(t, "all are handled", func() bool { left, _ := b.left(); return left == 0 })
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, seen, keys)
	for k, ns := range seen {
		assert.Len(t, ns, each, k)
		assert.True(t, slices.IsSorted(ns), k)
	}
}

func TestTheCapacityOfAKeyHoldsWhereTheStageRuns(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.setAway(true)
	open, begun := make(chan struct{}), make(chan struct{}, 10)
	place := func(process string) (*pipeline.Pipeline, *stage.Stage[int]) {
		keyed := stage.Keyed("keyed", func(int) string { return "hot" }, func(string) behaviour.Behaviour[int] {
			return behaviour.Func[int](func(context.Context, int) behaviour.Outcome {
				begun <- struct{}{}
				<-open
				return behaviour.OK(nil)
			})
		}, stage.Capacity(8), stage.KeyCapacity(1), stage.Overflow(overflow.Reject))
		front := stage.Sink("front", func(context.Context, int) error { return nil })
		p, err := pipeline.New("test", quiet, front, keyed, pipeline.Assign("a", "front"), pipeline.Assign("b", "keyed"), pipeline.Entry(front, keyed),
			pipeline.RunsHere(b.process(), process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
		return p, keyed
	}
	_, there := place("a") // where the commands are sent from
	for n := range 8 {
		require.NoError(t, there.Submit(t.Context(), n))
	}
	require.Zero(t, there.Snapshot().Queue.KeyCapacity)

	_, here := place("b")
	require.Equal(t, 1, here.Snapshot().Queue.KeyCapacity)
	require.NoError(t, here.Submit(t.Context(), 8))
	<-begun
	require.NoError(t, here.Submit(t.Context(), 9))
	require.ErrorContains(t, here.Submit(t.Context(), 10), "full for its key: 1 of its commands wait, as many as KeyCapacity allows")
	close(open)
	b.setAway(false)
	inTime(t, "all are handled", func() bool { left, _ := b.left(); return left == 0 && here.Snapshot().Counts.OK == 10 })
}

func TestPlaceReportsAllFaultsTogether(t *testing.T) {
	t.Parallel()
	sink := func(name string) *stage.Stage[int] {
		return stage.Func(name, func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	}
	a, b := sink("a"), sink("b")
	floats := stage.Keyed("floats", func(n int) float64 { return float64(n) }, func(float64) *spyInstance { return &spyInstance{} })
	var none *brokerProcess
	rows := []struct {
		name  string
		parts []pipeline.Part
		want  []string
	}{
		{"a nil carrier", []pipeline.Part{a, pipeline.Assign("p", "a"), pipeline.RunsHere(none, "p")}, []string{"RunsHere: the carrier is nil"}},
		{
			"no Assign",
			[]pipeline.Part{a, pipeline.RunsHere(newBroker().process(), "p")},
			[]string{"RunsHere: there is no Assign", `stage "a": is mapped to no process`},
		},
		{
			"a process of no Assign, and one given twice",
			[]pipeline.Part{a, pipeline.Assign("p", "a"), pipeline.RunsHere(newBroker().process(), "x", "p", "p")},
			[]string{`RunsHere: no Assign is for a process "x"; there are p`, `RunsHere: process "p" is given twice`},
		},
		{"no process", []pipeline.Part{a, pipeline.Assign("p", "a"), pipeline.RunsHere(newBroker().process())}, []string{"RunsHere: names no process"}},
		{
			"a stage of no process",
			[]pipeline.Part{a, b, pipeline.Assign("p", "a"), pipeline.RunsHere(newBroker().process(), "p")},
			[]string{`stage "b": is mapped to no process`},
		},
		{"two Places", []pipeline.Part{
			a, pipeline.Assign("p", "a"), pipeline.RunsHere(newBroker().process(), "p"), pipeline.RunsHere(newBroker().process(), "p"),
		}, []string{"RunsHere: is given 2 times"}},
		{
			"a key of floats",
			[]pipeline.Part{floats, pipeline.Assign("p", "floats"), pipeline.RunsHere(newBroker().process(), "p")},
			[]string{`stage "floats"`, "float64, is not the same in every process"},
		},
		{
			"a carrier that refuses, and one more fault",
			[]pipeline.Part{a, b, pipeline.Assign("p", "a"), pipeline.RunsHere(refusing{}, "p")},
			[]string{`stage "b": is mapped to no process`, `stage "a": commands cannot be sent to it, or come from other processes: it is a refus`},
		},
		{
			"a carrier that panics",
			[]pipeline.Part{a, pipeline.Assign("p", "a"), pipeline.RunsHere(refusing{panics: true}, "p")},
			[]string{"the carrier panicked: oh"},
		},
		{
			"a carrier without lines",
			[]pipeline.Part{a, pipeline.Assign("p", "a"), pipeline.RunsHere(refusing{none: true}, "p")},
			[]string{"returned no line"},
		},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := pipeline.New("test", r.parts...)
			for _, want := range r.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
	p, err := pipeline.New("test", quiet, a, b)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	assert.ErrorContains(t, p.Add(t.Context(), sink("c"), pipeline.RunsHere(newBroker().process(), "p")), "RunsHere: is for New")
}

func TestPlaceRefusesAKeyedStageThatIsReachedWithoutItsLine(t *testing.T) {
	t.Parallel()
	keyed := func(name string, o ...stage.Option) *stage.Stage[int] {
		return stage.Keyed(name, func(n int) int { return n }, func(int) *spyInstance { return &spyInstance{} }, o...)
	}
	routed := func(parts ...pipeline.Part) []pipeline.Part {
		route := stage.Map("route", func(_ context.Context, n int) (int, error) { return n, nil })
		return append(parts, route.To(keyed("ledger")))
	}
	apart := func() []pipeline.Part { return routed(pipeline.Assign("a", "route"), pipeline.Assign("b", "ledger")) }
	together := func() []pipeline.Part { return routed(pipeline.Assign("a", "route", "ledger")) }
	loop := func() []pipeline.Part {
		again := behaviour.NewPort[int]("again")
		looped := keyed("looped", stage.Out(again))
		return []pipeline.Part{looped, pipeline.Wire(again, looped), pipeline.Assign("b", "looped")}
	}
	feed := func() []pipeline.Part {
		return []pipeline.Part{pipeline.Feed("numbers", keyed("ledger"), source.Slice([]int{1})), pipeline.Assign("b", "ledger")}
	}
	const do = "map the keyed stage to a name of its own"
	rows := []struct {
		name  string
		parts func() []pipeline.Part
		here  []string
		want  []string // nothing: it is no fault
	}{
		{"a name of its own", apart, []string{"b"}, nil},
		{"elsewhere", apart, []string{"a"}, nil},
		{"all names, and a feed", feed, []string{"b", "c"}, nil},
		{"beside a stage that does not lead to it", apart, []string{"b", "c"}, nil},
		{"all names", apart, []string{"a", "b", "c"}, nil},
		{"all names, of the same name", together, []string{"a", "c"}, nil},
		{"the same name", together, []string{"a"}, []string{`stage "ledger": is keyed, and stage "route"`, `process "a" too`, do}},
		{"the same name elsewhere", together, []string{"c"}, []string{`stage "ledger": is keyed, and stage "route"`, do}},
		{"two names", apart, []string{"a", "b"}, []string{`stage "ledger": is keyed, and stage "route"`, "in this process too", do}},
		{"itself", loop, []string{"b"}, []string{`stage "looped": is keyed and leads to itself`, do}},
		{"itself elsewhere", loop, []string{"c"}, []string{`stage "looped": is keyed and leads to itself`, do}},
		{"a feed", feed, []string{"b"}, []string{`stage "ledger": is keyed, and feed "numbers"`, do}},
		{"a feed elsewhere", feed, []string{"c"}, []string{`stage "ledger": is keyed, and feed "numbers"`, do}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			other := stage.Func("other", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
			_, err := pipeline.New("test", append(r.parts(), other, pipeline.Assign("c", "other"), pipeline.RunsHere(newBroker().process(), r.here...))...)
			if r.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Len(t, strings.Split(err.Error(), "\n"), 1)
			for _, want := range r.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// mistaken is a carrier whose lines feed a command of another type, and then one of the stage's.
type mistaken struct {
	*brokerProcess

	ends chan error
}

func (c mistaken) Line(name string, of reflect.Type, key func(any) uint64) (remote.Line, error) {
	l, err := c.brokerProcess.Line(name, of, key)
	return mistakenLine{l, c.ends}, err
}

type mistakenLine struct {
	remote.Line

	ends chan error
}

func (l mistakenLine) Feed(ctx context.Context, submit func(any, func(error)) error) error {
	for _, cmd := range []any{"seven", nil, 7} {
		if err := submit(cmd, func(err error) { l.ends <- err }); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func TestACommandOfAWrongTypeFailsAndTheNextIsHandled(t *testing.T) {
	t.Parallel()
	handled := make(chan int, 1)
	a := stage.Sink("a", func(_ context.Context, n int) error { handled <- n; return nil })
	ends := make(chan error, 3)
	p, err := pipeline.New("test", quiet, a, pipeline.Assign("p", "a"), pipeline.RunsHere(mistaken{newBroker().process(), ends}, "p"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	assert.Equal(t, 7, <-handled)
	require.ErrorContains(t, <-ends, "string")
	require.Error(t, <-ends)
	require.NoError(t, <-ends)
	assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}

// refusing is a carrier that carries nothing.
type refusing struct{ panics, none bool }

func (r refusing) Line(string, reflect.Type, func(any) uint64) (remote.Line, error) {
	switch {
	case r.panics:
		panic("oh")
	case r.none:
		return nil, nil
	default:
		return nil, errors.New("it is a refusing one")
	}
}

// closed is a carrier whose lines do not open.
type closed struct{ *brokerProcess }

func (c closed) Line(name string, of reflect.Type, key func(any) uint64) (remote.Line, error) {
	l, err := c.brokerProcess.Line(name, of, key)
	return closedLine{l}, err
}

type closedLine struct{ remote.Line }

func (closedLine) Open(context.Context) error { return errors.New("closed today") }

func TestAStartFailsIfALineDoesNotOpen(t *testing.T) {
	t.Parallel()
	a := stage.Func("a", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	p, err := pipeline.New("test", quiet, a, pipeline.Assign("p", "a"), pipeline.RunsHere(closed{newBroker().process()}, "p"))
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), `stage "a": closed today`)
	<-p.Done()
}

func TestRewireLeadsToAStageThatRunsElsewhere(t *testing.T) {
	t.Parallel()
	b := newBroker()
	near := stage.Map("near", func(_ context.Context, n int) (int, error) { return n, nil })
	here := stage.Sink("here", func(context.Context, int) error { return nil })
	there := stage.Sink("there", func(context.Context, int) error { return nil })
	before := stage.Map("before", func(_ context.Context, n int) (int, error) { return n, nil })
	hidden := stage.Sink("hidden", func(context.Context, int) error { return nil })
	p, err := pipeline.New("test", quiet, near.To(here), there, before.To(hidden), pipeline.Entry(near, there, before),
		pipeline.Assign("a", "near", "here"), pipeline.Assign("b", "there", "before", "hidden"), pipeline.RunsHere(b.process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	require.ErrorContains(t, p.Rewire(t.Context(), near.To(hidden)), "no commands can be sent to")
	require.NoError(t, p.Rewire(t.Context(), near.To(there)))
	require.NoError(t, near.Submit(t.Context(), 1))
	require.NoError(t, p.Stop(context.Background()))
	sent, _ := b.of("there")
	assert.Equal(t, 1, sent)
}

func TestAStageIsRewiredWhereItRuns(t *testing.T) {
	t.Parallel()
	out, both := behaviour.NewPort[int]("out"), behaviour.NewPort[int]("both")
	forward := func(name string, to *behaviour.Port[int], o ...stage.Option) *stage.Stage[int] {
		return stage.Func(name, func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(to, n) }, o...)
	}
	here, there := forward("here", both, stage.Out(both)), forward("there", out, stage.Out(out), stage.Out(both))
	flow := stage.Map("flow", func(_ context.Context, n int) (int, error) { return n, nil })
	one := stage.Sink("one", func(context.Context, int) error { return nil })
	handled := make(chan int, 1)
	two := stage.Sink("two", func(_ context.Context, n int) error { handled <- n; return nil })
	p, err := pipeline.New("test", quiet, here, there, one, two, flow.To(one), pipeline.Wire(out, one), pipeline.Wire(both, one),
		pipeline.Assign("a", "here", "one", "two"), pipeline.Assign("b", "there", "flow"), pipeline.RunsHere(newBroker().process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	err = p.Rewire(t.Context(), pipeline.Wire(out, two))
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.ErrorContains(t, err, `stage "there": runs in process "b": it can be rewired there only`)
	require.ErrorIs(t, p.Rewire(t.Context(), flow.To(two)), stage.ErrElsewhere)
	require.ErrorIs(t, p.Rewire(t.Context(), pipeline.Wire(both, two), flow.To(two)), stage.ErrElsewhere) // nothing has changed
	assert.Equal(t, []string{"one"}, p.Successors()["here"])
	assert.Equal(t, []string{"one"}, p.Successors()["there"])
	require.NoError(t, p.Rewire(t.Context(), pipeline.Wire(both, two)))
	require.NoError(t, here.Submit(t.Context(), 5))
	assert.Equal(t, 5, <-handled)
}

func TestRunReturnsIfOnlyAFeedOfThisProcessHasCommands(t *testing.T) {
	t.Parallel()
	b := newBroker()
	near := stage.Map("near", func(_ context.Context, n int) (int, error) { return n, nil })
	far := stage.Sink("far", func(context.Context, int) error { return nil })
	p, err := pipeline.New("test", quiet, pipeline.Feed("numbers", near, source.Slice(make([]int, 100))), near.To(far),
		pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(b.process(), "a"))
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	sent, _ := b.of("far")
	assert.Equal(t, 100, sent)
}

func TestADrawingShowsTheStagesThatRunElsewhere(t *testing.T) {
	t.Parallel()
	here, all := newScans(t, newBroker(), "front", &handledBy{}), newScans(t, newBroker(), "", &handledBy{})
	assert.Equal(t, all.Mermaid(), here.Mermaid())
	assert.Contains(t, here.DOT(), `label="ocr @ ocr"`)
}

// world is a random pipeline of stages that run in random processes. The stage in front of it has a process of its own.
type world struct {
	t       *rapid.T
	maps    []string // the process of each stage
	next    [][]int  // the stages that each stage leads to
	crashes map[int]bool
}

func drawWorld(t *rapid.T) *world {
	w := &world{t: t, crashes: map[int]bool{}, maps: []string{"front"}, next: [][]int{{1}}}
	stages := 1 + rapid.IntRange(1, 5).Draw(t, "stages")
	for i := 1; i < stages; i++ {
		w.maps = append(w.maps, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "process"))
		var next []int
		for to := i + 1; to < stages; to++ {
			if to == i+1 || rapid.Bool().Draw(t, "leads") {
				next = append(next, to)
			}
		}
		w.next = append(w.next, next)
	}
	for _, c := range rapid.SliceOfN(rapid.IntRange(0, 49), 0, 3).Draw(t, "crashes") {
		w.crashes[c] = true
	}
	return w
}

// node is one process of a world.
type node struct {
	*pipeline.Pipeline

	process string
	carrier *brokerProcess
	front   *stage.Stage[int]
}

// run starts the pipeline as a process has it. Results gets what the last stages handle.
func (w *world) run(b *broker, process string, results *handledBy) *node {
	stages := make([]*stage.Stage[int], len(w.maps))
	parts := []pipeline.Part{quiet}
	mapped := map[string][]string{}
	for i := len(w.maps) - 1; i >= 0; i-- {
		opts := []stage.Option{stage.Capacity(8), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Microsecond})}
		var outs []*behaviour.Port[int]
		for _, to := range w.next[i] {
			port := behaviour.NewPort[int](fmt.Sprint("to ", to))
			outs = append(outs, port)
			opts = append(opts, stage.Out(port))
			parts = append(parts, pipeline.Wire(port, stages[to]))
		}
		stages[i] = stage.Func(fmt.Sprint("s", i), func(ctx context.Context, n int) behaviour.Outcome {
			switch {
			case w.crashes[(n*7+i)%50] && behaviour.Attempt(ctx) == 1:
				panic("a crash")
			case len(outs) == 0:
				results.add(fmt.Sprint(i, ":", n))
				return behaviour.OK(nil)
			}
			for _, port := range outs[1:] {
				if err := behaviour.Emit(ctx, port, n); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.Forward(outs[0], n)
		}, opts...)
		mapped[w.maps[i]] = append(mapped[w.maps[i]], fmt.Sprint("s", i))
		parts = append(parts, stages[i])
	}
	n := &node{carrier: b.process(), process: process, front: stages[0]}
	for process, names := range mapped {
		parts = append(parts, pipeline.Assign(process, names...))
	}
	if process != "" {
		parts = append(parts, pipeline.RunsHere(n.carrier, process))
	}
	p, err := pipeline.New("world", parts...)
	require.NoError(w.t, err)
	require.NoError(w.t, p.Start(context.Background()))
	n.Pipeline = p
	return n
}

// stop stops a process, and checks its accounts.
func (w *world) stop(ctx context.Context, n *node) {
	_ = n.Stop(ctx)
	require.True(w.t, n.Snapshot().Balanced(), n.Snapshot().Law())
}

func TestAPipelineInSeveralProcessesDoesWhatOneProcessDoes(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		n := rapid.IntRange(1, 60).Draw(t, "commands")
		kills := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(3, n), rapid.ID).Draw(t, "kills")
		twice := rapid.Bool().Draw(t, "two of each")

		want, got := &handledBy{}, &handledBy{}
		whole := w.run(newBroker(), "", want)
		for i := range n {
			require.NoError(t, whole.front.Submit(context.Background(), i))
		}
		w.stop(context.Background(), whole)

		b := newBroker()
		front := w.run(b, "front", got)
		var nodes []*node
		for _, process := range slices.Compact(slices.Sorted(slices.Values(w.maps[1:]))) {
			nodes = append(nodes, w.run(b, process, got))
			if twice {
				nodes = append(nodes, w.run(b, process, got))
			}
		}
		for i := range n {
			if slices.Contains(kills, i) {
				at := rapid.IntRange(0, len(nodes)-1).Draw(t, "victim")
				victim := nodes[at]
				if rapid.Bool().Draw(t, "killed") { // otherwise it is stopped hard
					victim.carrier.kill()
				}
				w.stop(ended, victim)
				nodes[at] = w.run(b, victim.process, got)
			}
			require.NoError(t, front.front.Submit(context.Background(), i))
		}
		w.stop(context.Background(), front)
		limit := time.After(2 * time.Minute)
		for left, balanced := b.left(); left > 0; left, balanced = b.left() {
			require.True(t, balanced)
			select {
			case <-limit:
				t.Fatalf("%d commands have not ended", left)
			case <-time.After(100 * time.Microsecond):
			}
		}
		for _, n := range nodes {
			w.stop(context.Background(), n)
		}
		for i := range w.maps {
			_, buried := b.of(fmt.Sprint("s", i))
			require.Zero(t, buried)
		}
		all := got.all()
		if len(kills) > 0 { // at least once
			for k := range all {
				all[k] = 1
			}
			for k := range want.of {
				want.of[k] = 1
			}
		}
		require.Equal(t, want.all(), all)
	})
}

// patient is a carrier whose lines open when their context ends.
type patient struct{ *brokerProcess }

func (c patient) Line(name string, of reflect.Type, key func(any) uint64) (remote.Line, error) {
	l, err := c.brokerProcess.Line(name, of, key)
	return patientLine{l}, err
}

type patientLine struct{ remote.Line }

func (patientLine) Open(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func TestAStopEndsAStartThatOpensLines(t *testing.T) {
	t.Parallel()
	a := stage.Func("a", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	p, err := pipeline.New("test", quiet, a, pipeline.Assign("p", "a"), pipeline.RunsHere(patient{newBroker().process()}, "p"))
	require.NoError(t, err)
	started := make(chan error)
	go func() { started <- p.Start(context.Background()) }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ended)
	require.Error(t, <-started)
}
