package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// blocking are kinds of stages whose handlers block.
func blocking() map[string]func(b blocker) *stage.Stage[int] {
	return map[string]func(b blocker) *stage.Stage[int]{
		"plain":          func(b blocker) *stage.Stage[int] { return stage.New("s", b, four()...) },
		"with a timeout": func(b blocker) *stage.Stage[int] { return stage.New("s", b, four(stage.Timeout(time.Hour))...) },
		"a batcher":      func(b blocker) *stage.Stage[int] { return stage.New("s", blockers{b}, four()...) },
		"a batcher in time": func(b blocker) *stage.Stage[int] {
			return stage.New("s", blockers{b}, four(stage.Timeout(time.Hour))...)
		},
		"with retries": func(b blocker) *stage.Stage[int] {
			return stage.New("s", b, four(stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Hour}))...)
		},
		"one each": func(b blocker) *stage.Stage[int] {
			return stage.Each("s", func() behaviour.Behaviour[int] { return b }, four()...)
		},
	}
}

func TestAHardStopLeavesNoCommandWithoutAnEnd(t *testing.T) {
	for name, of := range blocking() {
		for _, asks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tickets %v", name, asks), func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) { leavesNone(t, of, way, asks) })
			})
		}
	}
}

func leavesNone(t *testing.T, of func(blocker) *stage.Stage[int], way pipeline.Part, asks bool) {
	t.Helper()
	b := newBlocker()
	s := of(b)
	p := bubble(t, s, way, pipeline.Grace(100*time.Millisecond))
	var tickets []*stage.Ticket
	if asks {
		tickets = hangs(t, s)
	} else {
		for i := range 4 {
			require.NoError(t, s.Submit(t.Context(), i))
		}
		synctest.Wait()
	}
	require.Error(t, p.Stop(gone()))
	atRest(t, p)
	before := p.Snapshot()
	require.EqualValues(t, 4, before.Replied+before.DeadLettered)
	require.EqualValues(t, 1, before.Stages[0].Counts.Stuck)
	require.Equal(t, 1, before.Stages[0].Workers.Abandoned)
	require.Len(t, p.DeadLetters().List(letters.Filter{}), int(before.DeadLettered))
	for i, ticket := range tickets {
		if _, err := ticket.Wait(soon(t)); i > 0 {
			require.ErrorIs(t, err, stage.ErrStopped)
			require.ErrorIs(t, err, stage.ErrStuck)
		}
	}
	seen := b.seen()
	close(b.let)
	synctest.Wait()
	after := p.Snapshot()
	require.Zero(t, after.Stages[0].Workers.Abandoned)
	require.Equal(t, before.DeadLettered, after.DeadLettered)
	require.Equal(t, before.Replied, after.Replied)
	require.True(t, after.Balanced(), after.Law())
	if !strings.Contains(t.Name(), "a_batcher") { // whose call has all commands
		require.Equal(t, seen, b.seen(), "no further one was begun")
	}
}

// masks returns which of four commands have a caller: all combinations, or some.
func masks() (all []int) {
	every := 1
	if fewer(2) < 2 {
		every = 5
	}
	for mask := 0; mask < 16; mask += every {
		all = append(all, mask)
	}
	return all
}

// A worker counts commands as forwarded when a later command has a waiting caller; it still holds them when it hangs. Each script
// is the outcome of four commands; a fifth word makes errors retry.
func TestCommandsForwardedBeforeAHandlerHangsEndToo(t *testing.T) {
	for _, script := range [][]string{
		{"forward", "answer", "hang", "answer"},
		{"forward", "emit", "hang", "answer"},
		{"forward", "answer", "emit", "hang"},
		{"emit", "forward", "emit and forward", "hang"},
		{"answer", "forward", "fail", "hang"},
		{"forward", "emit many", "forward", "hang"},
		{"emit and hang", "answer", "answer", "answer"},
		{"forward", "emit many and hang", "answer", "answer"},
		{"forward elsewhere", "forward", "answer", "hang"},
		{"forward", "emit in vain and hang", "answer", "answer"},
		{"answer", "forward", "fail", "hang", "again"},
		{"answer", "emit, hang and fail", "answer", "answer", "again"},
		{"answer", "emit, hang and fail", "answer", "answer"},
		{"answer", "hang and fail", "answer", "answer", "again"},
	} {
		for _, mask := range masks() {
			t.Run(fmt.Sprintf("%v %04b", script, mask), func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) {
					opts := four()
					if len(script) > 4 {
						opts = append(opts, stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Hour}))
					}
					var list sync.Map
					let := make(chan struct{})
					next, other := stage.Func("next", echo[string], stage.Capacity(1)), stage.Func("other", echo[string])
					s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
						return perform(ctx, n, script[n], next, other, let)
					}, opts...)
					p := bubble(t, s, next, other, way, pipeline.DeadLetters(func(l stage.DeadLetter) {
						key := fmt.Sprint(l.Stage, l.Command)
						_, twice := list.LoadOrStore(key, true)
						require.False(t, twice, key)
					}))
					require.NoError(t, p.Pause(next))
					var tickets []*stage.Ticket
					for i := range 4 {
						if mask&(1<<i) == 0 {
							require.NoError(t, s.Submit(t.Context(), i))
							continue
						}
						ticket, err := s.Ask(t.Context(), i)
						require.NoError(t, err)
						tickets = append(tickets, ticket)
					}
					synctest.Wait()
					require.Error(t, p.Stop(gone()))
					atRest(t, p)
					for _, ticket := range tickets {
						select {
						case <-ticket.Done():
						default:
							t.Fatal("a ticket has not ended")
						}
					}
					before := p.Snapshot()
					close(let)
					synctest.Wait()
					after := p.Snapshot()
					require.Equal(t, before.Law(), after.Law())
					require.Zero(t, after.Stages[0].Workers.Abandoned)
				})
			})
		}
	}
}

// The command 0 or 1 has emitted two others when a later command of the batch hangs and the pipeline stops. Either the command was
// handed over together with the emitted ones, or it ends here, and those are not sent.
func TestEmittedCommandsNeverOutliveACommandThatEndsWhereItEmittedThem(t *testing.T) {
	for _, script := range [][]string{
		{"emit and forward", "hang", "answer", "answer"},
		{"answer", "emit and forward", "hang", "answer"},
		{"forward", "emit and forward", "hang", "answer"},
		{"emit and forward", "emit and forward", "answer", "hang"},
		{"emit", "emit and forward", "hang", "answer"},
		{"emit", "hang", "answer", "answer"},
		{"emit and hang", "answer", "answer", "answer"},
		{"emit and forward", "emit, hang and fail", "answer", "answer"},
	} {
		for _, mask := range masks() {
			t.Run(fmt.Sprintf("%v %04b", script, mask), func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) {
					let := make(chan struct{})
					next, other := stage.Func("next", echo[string]), stage.Func("other", echo[string])
					s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
						return perform(ctx, n, script[n], next, other, let)
					}, four()...)
					p := bubble(t, s, next, other, way)
					require.NoError(t, p.Pause(next))
					require.NoError(t, p.Pause(other))
					for i := range 4 {
						if mask&(1<<i) == 0 {
							require.NoError(t, s.Submit(t.Context(), i))
							continue
						}
						_, err := s.Ask(t.Context(), i)
						require.NoError(t, err)
					}
					synctest.Wait()
					require.Error(t, p.Stop(gone()))
					close(let)
					synctest.Wait()
					atRest(t, p)
					ended := map[string]bool{}
					for _, l := range p.DeadLetters().List(letters.Filter{}) {
						ended[fmt.Sprint(l.Stage, " ", l.Command)] = true
					}
					for n, act := range script {
						if ended[fmt.Sprint("s ", n)] {
							require.NotContains(t, ended, fmt.Sprint("next ", act, n, " ", 0), "emitted by %d", n)
						}
					}
				})
			})
		}
	}
}

func perform(ctx context.Context, n int, act string, next, other behaviour.Target[string], let chan struct{}) behaviour.Outcome {
	emit := func(times int) {
		for i := range times {
			_ = behaviour.Emit(ctx, next, fmt.Sprint(act, n, " ", i))
		}
	}
	switch act {
	case "forward":
		return behaviour.Forward(next, fmt.Sprint(act, n))
	case "forward elsewhere":
		return behaviour.Forward(other, fmt.Sprint(act, n))
	case "emit":
		emit(2)
	case "emit many":
		emit(300)
	case "emit and forward":
		emit(2)
		return behaviour.Forward(other, fmt.Sprint(act, n))
	case "fail":
		emit(2)
		return behaviour.Error(errNo)
	case "hang":
		<-let
	case "emit and hang":
		emit(2)
		<-let
	case "emit many and hang":
		emit(300)
		<-let
	case "emit, hang and fail", "hang and fail":
		if act != "hang and fail" {
			emit(2)
		}
		<-let
		return behaviour.Error(errNo)
	case "emit in vain and hang":
		in, cancel := context.WithCancel(ctx)
		cancel()
		ctx = in
		emit(300)
		<-let
	}
	return behaviour.OK(n)
}

// squall is a pipeline whose handlers do everything that handlers may do, at random.
type squall struct {
	seed    uint64
	let     chan struct{}
	letters sync.Map
	twice   atomic.Pointer[string]
	more    atomic.Int64 // numbers of emitted commands
}

func (w *squall) dice(n, salt int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(n)<<8+uint64(salt)))
}

func (w *squall) handle(ctx context.Context, place, n int, next behaviour.Target[int]) behaviour.Outcome {
	dice := w.dice(n, place)
	emit := func() {
		for range []int{0, 0, 0, 0, 1, 3, 260}[dice.IntN(7)] {
			if next != nil {
				_ = behaviour.Emit(ctx, next, int(1000+w.more.Add(1)))
			}
		}
	}
	emit()
	switch dice.IntN(16) {
	case 0:
		<-w.let
	case 1, 2:
		<-ctx.Done()
	case 3:
		time.Sleep(time.Duration(dice.IntN(100)) * time.Microsecond)
	case 4:
		panic("storm")
	case 5:
		runtime.Goexit()
	case 6:
		return behaviour.Error(errNo)
	case 7:
		<-w.let
		panic("late")
	case 8:
		<-ctx.Done()
		runtime.Gosched()
		runtime.Goexit()
	case 9:
		<-w.let
		return behaviour.Error(errNo)
	case 10:
		<-ctx.Done()
		return behaviour.Error(errNo)
	case 11:
		<-w.let
		emit()
	case 12:
		<-ctx.Done()
		emit()
	}
	if next != nil && dice.IntN(4) > 0 {
		return behaviour.Forward(next, n)
	}
	return behaviour.OK(n)
}

// oneLife is an instance that must be stopped once.
type oneLife struct {
	behaviour.Func[int]

	w     *squall
	ended *atomic.Bool
}

func (m oneLife) Stop() {
	if what := "an instance"; m.ended.Swap(true) {
		m.w.twice.Store(&what)
	}
}

type stormer func(ctx context.Context, n int) behaviour.Outcome

func (f stormer) HandleCommand(ctx context.Context, n int) behaviour.Outcome { return f(ctx, n) }

func (f stormer) HandleBatch(ctx context.Context, ns []int) (out []behaviour.Outcome) {
	for _, n := range ns {
		out = append(out, f(ctx, n))
	}
	return out
}

func (w *squall) stages(dice *rand.Rand) (parts []pipeline.Part, entry *stage.Stage[int]) {
	var next *stage.Stage[int]
	for place := range 2 + dice.IntN(3) {
		var target behaviour.Target[int]
		if next != nil {
			target = next
		}
		f := func(ctx context.Context, n int) behaviour.Outcome { return w.handle(ctx, place, n, target) }
		most := 1 + dice.IntN(3)
		opts := []stage.Option{
			stage.Workers(most, most), stage.Batch([]int{1, 4, 64}[dice.IntN(3)]), stage.Capacity([]int{2, 16, 1000}[dice.IntN(3)]),
			stage.Overflow([]overflow.Rule{overflow.Wait, overflow.Wait, overflow.Wait, overflow.Reject, overflow.DropOldest}[dice.IntN(5)]),
		}
		if dice.IntN(3) == 0 {
			opts = append(opts, stage.Timeout([]time.Duration{time.Hour, time.Millisecond}[dice.IntN(2)]), stage.Grace(0))
		}
		if dice.IntN(3) == 0 {
			opts = append(opts, stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Microsecond}))
		}
		name := fmt.Sprintf("s%d", place)
		switch dice.IntN(3) {
		case 0:
			next = stage.Each(name, func() behaviour.Behaviour[int] { return oneLife{f, w, new(atomic.Bool)} }, opts...)
		case 1:
			next = stage.New(name, fn(f), opts...)
		default:
			next = stage.New(name, stormer(f), opts...)
		}
		parts = append(parts, next)
	}
	slices.Reverse(parts)
	if dice.IntN(2) == 0 {
		all := []string{"fifo", "exhaustive", "bounded"}
		parts = append(parts, pipeline.Control(ways(1 + dice.IntN(3))[all[dice.IntN(3)]]))
	}
	return parts, next
}

// Workers are abandoned at any instant: while handlers block, emit, forward, crash or return late, and in between.
func TestAHardStopEndsEachCommandOnceWhateverTheTiming(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	if *long {
		rounds = 1000
	}
	seed := rand.Uint64()
	for round := range rounds {
		w := &squall{seed: seed + uint64(round), let: make(chan struct{})}
		if !t.Run(strconv.FormatUint(w.seed, 10), w.blow) {
			return
		}
	}
}

func (w *squall) blow(t *testing.T) {
	dice := w.dice(0, 99)
	parts, entry := w.stages(dice)
	p := start(t, append(parts, pipeline.Grace(0), pipeline.DeadLetters(func(l stage.DeadLetter) {
		key := fmt.Sprint(l.Stage, " ", l.Command)
		if _, twice := w.letters.LoadOrStore(l.Command, key); twice {
			w.twice.Store(&key)
		}
	}))...)
	tickets := make([]*stage.Ticket, 100)
	var submitters sync.WaitGroup
	for part := range 2 {
		submitters.Go(func() {
			for n := part; n < len(tickets); n += 2 {
				if n%3 == 0 {
					tickets[n], _ = entry.Ask(t.Context(), n)
				} else {
					_ = entry.Submit(t.Context(), n)
				}
			}
		})
	}
	time.Sleep(time.Duration(dice.IntN(1000)) * time.Microsecond)
	early, over := dice.IntN(2) == 0, make(chan struct{})
	var hurried sync.WaitGroup
	if dice.IntN(4) > 0 { // the grace is over at once
		hurried.Go(func() { until(over, p.AbandonAll) })
	}
	if early {
		time.AfterFunc(time.Duration(dice.IntN(2000))*time.Microsecond, func() { close(w.let) })
	}
	_ = p.Stop(gone())
	before := p.Snapshot()
	close(over)
	hurried.Wait()
	submitters.Wait()
	require.True(t, before.Balanced(), before.Law())
	require.Zero(t, before.InFlight, before.Law())
	for n, ticket := range tickets {
		if ticket == nil {
			continue
		}
		_, err := ticket.Wait(soon(t))
		_, died := w.letters.Load(n)
		require.False(t, died && err == nil, "%d is answered and dead", n)
	}
	if !early {
		close(w.let)
	}
	eventually(t, "all have come back", func() bool {
		return !slices.ContainsFunc(p.Snapshot().Stages, func(s stage.Snapshot) bool { return s.Workers.Abandoned > 0 })
	})
	after := p.Snapshot()
	require.Equal(t, before.Law(), after.Law())
	if twice := w.twice.Load(); twice != nil {
		t.Fatalf("%s ended twice", *twice)
	}
}
