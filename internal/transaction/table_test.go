package transaction

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// Each row of the table of the text's faults is simulated twice: with the machines as they are, where nothing may go
// wrong in any seed, and with the text's own rule, where something must.

var (
	history = flag.Bool("history", false, "print the history of the first run that fails")
	more    = flag.Int("more", 0, "how many times all seeds are run, for the figures of the decision; 0: a fifth of them")
)

// limit bounds the events of one run.
const limit = 20_000

// calls returns a script: the methods, one after the other, some times.
func calls(rounds int, methods ...string) (script []guard.Request) {
	for range rounds {
		for _, m := range methods {
			script = append(script, guard.Request{Method: m})
		}
	}
	return script
}

// resource adds a process that is turned on and off.
func resource(w *world, name string, rounds int) *node {
	return w.add(&node{
		name:   name,
		script: calls(rounds, "on", "off"),
		local: func(n *node, q *requests.Queue) {
			q.Guard("on", func(func(string) guard.Counters) bool { return !n.on })
			q.Guard("off", func(func(string) guard.Counters) bool { return n.on })
		},
		start: func(n *node, r *requests.Request) {
			if r.Method == "on" {
				n.on = true
			}
		},
		end: func(n *node, r *requests.Request) {
			if r.Method == "off" {
				n.on = false
			}
		},
		died: func(n *node) { // what was called is lost, and the next round begins
			n.called += n.called % 2
			if n.call != nil && n.call.Method == "on" {
				n.called += 2
			}
		},
	})
}

func resources(w *world, n, rounds int) (names []string) {
	for i := range n {
		names = append(names, resource(w, fmt.Sprintf("r%d", i), rounds).name)
	}
	return names
}

// synchronizer adds a synchronizer.
func synchronizer(w *world, name string, rules func(s *Synchronizer)) *node {
	return w.add(&node{name: name, rules: rules})
}

// oneOn is figure 19: at most one resource is on at a time, by triggers. The resource is off when turn_off has
// completed, or, in the text's form, when it was accepted.
func oneOn(names []string, early bool) func(s *Synchronizer) {
	return func(s *Synchronizer) {
		on := ""
		off := func(guard.Request) { on = "" }
		for _, r := range names {
			s.Constrain(r, "on", func(guard.Request) bool { return on == "" })
			s.WhenAccepted(r, "on", func(guard.Request) { on = r })
			if early {
				s.WhenAccepted(r, "off", off)
			} else {
				s.WhenCompleted(r, "off", off)
			}
		}
		s.WhenTerminated(func(process string) {
			if on == process {
				on = ""
			}
		})
	}
}

// oneOnCounted is the same by counters alone, so it survives a restart.
func oneOnCounted(names []string) func(s *Synchronizer) {
	return func(s *Synchronizer) {
		for _, r := range names {
			s.Watch(r, "off")
			s.Constrain(r, "on", func(guard.Request) bool {
				on := 0
				for _, r := range names {
					on += s.Count(r, "on").Accepted - s.Count(r, "off").Completed
				}
				return on == 0
			})
		}
	}
}

// oncePerRound is figure 20: each resource is turned on once in a round.
func oncePerRound(names []string) func(s *Synchronizer) {
	return func(s *Synchronizer) {
		done, round := 0, 0
		next := map[string]int{}
		for _, r := range names {
			s.Constrain(r, "on", func(guard.Request) bool { return next[r] == round })
			s.WhenAccepted(r, "on", func(guard.Request) {
				next[r]++
				if done++; done == len(names) {
					done = 0
					round++
				}
			})
		}
	}
}

// free has no constraint that is ever false.
func free(names []string, method string, log *[]string) func(s *Synchronizer) {
	return func(s *Synchronizer) {
		for _, p := range names {
			s.Constrain(p, method, func(guard.Request) bool { return true })
			s.WhenAccepted(p, method, func(guard.Request) {
				if log != nil {
					*log = append(*log, p)
				}
			})
		}
	}
}

// crosswise has every second process ask in the opposite order.
func crosswise(w *world) {
	for i, name := range w.names {
		if n := w.nodes[name]; n.rules == nil {
			n.text.order = func(_ string, ask []string) {
				if slices.Sort(ask); i%2 == 1 {
					slices.Reverse(ask)
				}
			}
		}
	}
}

// correct changes the switches of all machines.
func (w *world) correct(change func(*text)) {
	for _, name := range w.names {
		change(&w.nodes[name].text)
	}
}

// count runs a scenario with so many seeds, or until enough has gone wrong, and returns how often that was in how many of them. It logs the
// first.
func count(t *testing.T, n uint64, enough int, scenario func(w *world) (wrong string)) (wrongs int, runs uint64) {
	t.Helper()
	for seed := range n {
		wrong := scenario(newWorld(seed))
		runs++
		if wrong == "" {
			continue
		}
		if wrongs++; wrongs == enough {
			return wrongs, runs
		}
		if wrongs == 1 {
			w := newWorld(seed)
			w.trace = []string{}
			scenario(w)
			t.Logf("seed %d: %s", seed, wrong)
			if *history {
				t.Logf("%s", strings.Join(w.trace, "\n"))
			}
		}
	}
	return wrongs, runs
}

// seeds returns how many seeds of n are run.
func seeds(n int) uint64 {
	switch {
	case raced:
		return uint64((n + 19) / 20)
	case *more == 0:
		return uint64((n + 4) / 5)
	default:
		return uint64(n * *more)
	}
}

// row checks one row of the table.
func row(t *testing.T, n, atLeast int, scenario func(w *world, literal bool) (wrong string)) {
	t.Helper()
	t.Run("corrected", func(t *testing.T) {
		wrong, runs := count(t, seeds(n), 0, func(w *world) string { return scenario(w, false) })
		t.Logf("%d of %d", wrong, runs)
		assert.Zero(t, wrong)
	})
	t.Run("as in the text", func(t *testing.T) {
		if raced {
			return
		}
		enough, all := 0, uint64(n/3*max(*more, 1))
		if *more == 0 {
			enough = (atLeast + 14) / 15 // a fault that is rare needs as many seeds as ever
		}
		wrong, runs := count(t, all, enough, func(w *world) string { return scenario(w, true) })
		t.Logf("%d of %d", wrong, runs)
		assert.GreaterOrEqual(t, wrong, max(enough, atLeast/3*(*more)), "the simulator does not notice the fault")
	})
}

// finished runs a world and says which of its processes are stuck.
func (w *world) finished() string {
	if !w.run(limit) {
		return "it does not end"
	}
	if stuck := w.unfinished(); len(stuck) > 0 {
		return fmt.Sprint("stuck: ", stuck)
	}
	return ""
}

// neverTwoOn checks after each event that at most one resource is on.
func (w *world) neverTwoOn(wrong *string) {
	w.after = func() {
		on := 0
		for _, name := range w.names {
			if w.nodes[name].on {
				on++
			}
		}
		if on > 1 && *wrong == "" {
			*wrong = fmt.Sprintf("%d are on", on)
		}
	}
}

func TestTheYoungestThatWaitsIsServedFirst(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4, 6, 10} {
		t.Run(fmt.Sprint(n, " processes"), func(t *testing.T) {
			row(t, 500, 50, func(w *world, literal bool) string {
				var names []string
				for i := range n {
					names = append(names, w.add(&node{name: fmt.Sprintf("p%d", i), script: calls(8, "m")}).name)
				}
				crosswise(w)
				for _, s := range []string{"S1", "S2"} {
					synchronizer(w, s, free(names, "m", nil))
				}
				w.correct(func(x *text) { x.firstComeFirstServed = literal })
				w.invariant(literal)
				w.begin()
				return w.finished()
			})
		})
	}
}

// invariant checks that each transaction that waits is older than the one that has the lock.
func (w *world) invariant(not bool) {
	if not {
		return
	}
	w.after = func() {
		for _, name := range w.names {
			if s := w.nodes[name].synchronizer; s != nil && s.lock != nil {
				for _, waits := range s.waiting {
					if s.lock.id.Before(waits.id) {
						panic("a younger transaction waits for an older one")
					}
				}
			}
		}
	}
}

// p has m1, which S1 holds back, and some m2, which S2 holds back; S1 opens while S2 is asked about an m2.
func TestX7_NoLostNotification(t *testing.T) {
	t.Parallel()
	row(t, 1000, 50, func(w *world, literal bool) string {
		open, credits := false, 0
		p := w.add(&node{name: "p"})
		w.add(&node{name: "q", script: slices.Concat(calls(2, "credit"), calls(1, "open"), calls(2, "credit"))})
		synchronizer(w, "S1", func(s *Synchronizer) {
			s.Constrain("p", "m1", func(guard.Request) bool { return open })
			s.WhenAccepted("q", "open", func(guard.Request) { open = true })
		})
		synchronizer(w, "S2", func(s *Synchronizer) {
			s.Constrain("p", "m2", func(guard.Request) bool { return credits > 0 })
			s.WhenAccepted("p", "m2", func(guard.Request) { credits-- })
			s.WhenAccepted("q", "credit", func(guard.Request) { credits++ })
		})
		w.correct(func(x *text) { x.losesNotifications = literal })
		w.begin()
		ran := map[string]int{}
		p.start = func(_ *node, r *requests.Request) { ran[r.Method]++ }
		for _, m := range []string{"m1", "m2", "m2", "m2", "m2"} {
			p.process.Arrive(&requests.Request{Request: guard.Request{Process: "p", Method: m}})
		}
		if !w.run(limit) {
			return "it does not end"
		}
		if ran["m1"] != 1 || ran["m2"] != 4 {
			return fmt.Sprint("ran ", ran)
		}
		return ""
	})
}

func TestAProcessThatDiesBeforeItsCommitReleasesItsLock(t *testing.T) {
	t.Parallel()
	row(t, 1000, 50, func(w *world, literal bool) string {
		names := resources(w, 3, 4)
		synchronizer(w, "S1", oneOn(names, false))
		synchronizer(w, "S2", oncePerAny(names))
		dies := w.nodes["r0"]
		dies.stays, dies.plan = true, 3+w.rnd.IntN(30)
		w.correct(func(x *text) { x.ignoresDeaths = literal })
		w.begin()
		return w.finished()
	})
}

// oncePerAny counts only.
func oncePerAny(names []string) func(s *Synchronizer) {
	var log []string
	return free(names, "on", &log)
}

func TestX3_ProcessDiesBetweenOkAndCommit(t *testing.T) {
	t.Parallel()
	row(t, 3000, 10, func(w *world, literal bool) string {
		var names []string
		for i := range 3 {
			names = append(names, w.add(&node{name: fmt.Sprintf("p%d", i), script: calls(4, "m")}).name)
		}
		logs := map[string]*[]string{}
		for _, s := range []string{"S1", "S2", "S3"} {
			logs[s] = &[]string{}
			synchronizer(w, s, free(names, "m", logs[s]))
		}
		for _, name := range names[:1+w.rnd.IntN(2)] {
			n := w.nodes[name]
			n.stays, n.plan = w.rnd.IntN(2) == 0, 1+w.rnd.IntN(40)
			n.died = func(n *node) { // what was called is lost
				if n.call != nil {
					n.called++
				}
			}
		}
		w.correct(func(x *text) { x.asksNone = literal })
		w.begin()
		if wrong := w.finished(); wrong != "" {
			return wrong
		}
		for _, s := range []string{"S2", "S3"} {
			if !slices.Equal(slices.Sorted(slices.Values(*logs["S1"])), slices.Sorted(slices.Values(*logs[s]))) {
				return fmt.Sprint("triggers differ: S1 ", *logs["S1"], ", ", s, " ", *logs[s])
			}
		}
		for _, name := range w.names {
			if s := w.nodes[name].synchronizer; s != nil && s.lock != nil {
				return name + " is locked"
			}
		}
		return ""
	})
}

func TestWhatADeadProcessChangedIsRepaired(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]func([]string) func(*Synchronizer){
		"by OnTerminated": func(names []string) func(*Synchronizer) { return oneOn(names, false) },
		"by counters":     oneOnCounted,
	} {
		t.Run(name, func(t *testing.T) {
			row(t, 1000, 50, func(w *world, literal bool) string {
				names := resources(w, 4, 4)
				synchronizer(w, "S", rules(names))
				dies := w.nodes["r0"]
				dies.stays, dies.plan = w.rnd.IntN(2) == 0, 2+w.rnd.IntN(20)
				w.correct(func(x *text) { x.repairsNothing = literal })
				var wrong string
				w.neverTwoOn(&wrong)
				w.begin()
				if stuck := w.finished(); wrong == "" {
					wrong = stuck
				}
				return wrong
			})
		})
	}
}

// A process restarts several times, with or without a notice.
func TestX4_SynchronizerRestart(t *testing.T) {
	t.Parallel()
	scenario := func(w *world, wrong *string) {
		names := resources(w, 4, 4)
		synchronizer(w, "S1", oneOnCounted(names))
		synchronizer(w, "S2", oneOnCounted(names))
		for _, s := range []string{"S1", "S2"} {
			w.nodes[s].plan = 5 + w.rnd.IntN(80)
		}
		w.neverTwoOn(wrong)
	}
	row := func(t *testing.T, n, atLeast int, change func(*text)) {
		t.Helper()
		row(t, n, atLeast, func(w *world, literal bool) (wrong string) {
			scenario(w, &wrong)
			if literal {
				w.correct(change)
			}
			w.begin()
			if stuck := w.finished(); wrong == "" {
				wrong = stuck
			}
			return wrong
		})
	}
	t.Run("counters are fetched", func(t *testing.T) { row(t, 3000, 300, func(x *text) { x.startsEmpty = true }) })
	t.Run("each message has an epoch", func(t *testing.T) { row(t, 1500, 3, func(x *text) { x.noEpochs = true }) })
}

func TestX5_TriggerPhases(t *testing.T) {
	t.Parallel()
	row(t, 1000, 500, func(w *world, literal bool) (wrong string) {
		synchronizer(w, "S", oneOn(resources(w, 4, 5), literal))
		w.neverTwoOn(&wrong)
		w.begin()
		if stuck := w.finished(); wrong == "" {
			wrong = stuck
		}
		return wrong
	})
}

// Figures 19 to 21.
func TestS002_09_Composition(t *testing.T) {
	t.Parallel()
	const n, rounds = 5, 6
	messages, total := 0, 0
	for seed := range seeds(1000) {
		w := newWorld(seed)
		names := resources(w, n, rounds)
		synchronizer(w, "Sync_A", oneOn(names, false))
		synchronizer(w, "Sync_B", oncePerRound(names))
		var order []string
		for _, name := range names {
			r := w.nodes[name]
			start := r.start
			r.start = func(n *node, r *requests.Request) {
				if start(n, r); r.Method == "on" {
					order = append(order, n.name)
				}
			}
		}
		var wrong string
		w.neverTwoOn(&wrong)
		w.begin()
		require.Empty(t, w.finished(), "seed %d", seed)
		require.Empty(t, wrong, "seed %d", seed)
		require.Len(t, order, n*rounds)
		for block := range slices.Chunk(order, n) {
			require.Equal(t, names, slices.Sorted(slices.Values(block)), "seed %d", seed)
		}
		messages += w.messages()
		total += 2 * n * rounds
	}
	t.Logf("%.1f messages a request, with the request and its answer", 2+float64(messages)/float64(total))
}

// workers adds processes with one constrained method, which two synchronizers never hold back.
func workers(w *world, n, rounds int) (names []string) {
	for i := range n {
		names = append(names, w.add(&node{name: fmt.Sprintf("p%d", i), script: calls(rounds, "m")}).name)
	}
	return names
}

// An aborted attempt waits for a hint.
func TestARetryWaitsForAHint(t *testing.T) {
	t.Parallel()
	measure := func(literal bool) (messages, aborts float64) {
		commits := 0
		for seed := range seeds(60) {
			w := newWorld(seed)
			names := workers(w, 10, 8)
			crosswise(w)
			for _, s := range []string{"S1", "S2"} {
				synchronizer(w, s, free(names, "m", nil))
			}
			w.correct(func(x *text) { x.retriesAtOnce = literal })
			w.begin()
			require.Empty(t, w.finished(), "seed %d", seed)
			messages += float64(w.messages())
			aborts += float64(w.sent[Aborted])
			commits += w.commits["S1"]
		}
		return 2 + messages/float64(commits), aborts / float64(commits)
	}
	messages, aborts := measure(false)
	textMessages, textAborts := measure(true)
	t.Logf("corrected: %.1f messages and %.1f aborts a commit; as in the text: %.1f and %.1f", messages, aborts, textMessages, textAborts)
	assert.Less(t, aborts, 5.0)
	assert.Greater(t, textAborts, 2*aborts, "the simulator does not notice the fault")
}

// A process that has to try again keeps its identifier: it gets older.
func TestAnIdentifierGrowsWithCommitsOnly(t *testing.T) {
	t.Parallel()
	measure := func(literal bool) (longest int) {
		for seed := range seeds(150) {
			w := newWorld(seed)
			names := workers(w, 5, 20)
			crosswise(w)
			for _, s := range []string{"S1", "S2"} {
				synchronizer(w, s, free(names, "m", nil))
			}
			since := map[string]int{}
			commits := 0
			for _, name := range names {
				w.nodes[name].start = func(n *node, _ *requests.Request) {
					if waited := commits - since[n.name]; n.called > 0 {
						longest = max(longest, waited)
					}
					commits++
					since[n.name] = commits
				}
			}
			w.correct(func(x *text) { x.countsAttempts, x.retriesAtOnce = literal, literal })
			w.begin()
			require.Empty(t, w.finished(), "seed %d", seed)
		}
		return longest
	}
	corrected, literal := measure(false), measure(true)
	t.Logf("a process waits for at most %d commits of others; as in the text: %d", corrected, literal)
	assert.Less(t, corrected, 30)
	assert.Greater(t, literal, 2*corrected, "the simulator does not notice the fault")
}

// A synchronizer notifies the requests that it refused and that it would not refuse now.
func TestANotificationGoesToWhatWasRefused(t *testing.T) {
	t.Parallel()
	measure := func(literal bool) float64 {
		messages, commits := 0, 0
		for seed := range seeds(200) {
			w := newWorld(seed)
			names := resources(w, 5, 6)
			synchronizer(w, "Sync_A", oneOn(names, false))
			synchronizer(w, "Sync_B", oncePerRound(names))
			w.correct(func(x *text) { x.notifiesAll = literal })
			w.begin()
			require.Empty(t, w.finished(), "seed %d", seed)
			messages += w.messages()
			commits += w.commits["Sync_B"]
		}
		return float64(messages) / float64(commits)
	}
	corrected, literal := measure(false), measure(true)
	t.Logf("%.1f messages a commit; if all refused requests are notified: %.1f", corrected, literal)
	assert.Greater(t, literal, 1.1*corrected, "the simulator does not notice the fault")
}

// While a request is verified another function of its process changes the state that its guard has seen.
func TestAGuardIsEvaluatedAgainWhenAllHaveAgreed(t *testing.T) {
	t.Parallel()
	row(t, 500, 50, func(w *world, literal bool) (wrong string) {
		taken := false
		p := w.add(&node{name: "p", script: calls(6, "take", "give")})
		p.local = func(_ *node, q *requests.Queue) {
			q.Guard("take", func(func(string) guard.Counters) bool { return !taken })
			q.Guard("give", func(func(string) guard.Counters) bool { return taken })
		}
		p.start = func(_ *node, r *requests.Request) {
			if r.Method != "seize" {
				if taken == (r.Method == "take") {
					wrong = r.Method + " ran though its guard did not hold"
				}
				taken = !taken
				return
			}
			if !taken { // a function that needs no synchronizer takes it for a while
				taken = true
			}
		}
		p.end = func(_ *node, r *requests.Request) {
			if r.Method == "seize" {
				taken = false
			}
		}
		synchronizer(w, "S1", free([]string{"p"}, "take", nil))
		w.correct(func(x *text) { x.trustsGuards = literal })
		w.begin()
		seized := 0
		w.after = func() {
			if !taken && p.up && seized < 5 && w.rnd.IntN(4) == 0 {
				seized++
				p.process.Arrive(&requests.Request{Request: guard.Request{Process: "p", Method: "seize"}})
				w.serve(p)
			}
		}
		if stuck := w.finished(); wrong == "" {
			wrong = stuck
		}
		return wrong
	})
}

// Death notices of processes and synchronizers that live, and what was sent before them is lost in part.
func TestAFalseDeathNoticeHoldsUpNothing(t *testing.T) {
	t.Parallel()
	n, _ := count(t, seeds(1500), 0, func(w *world) string {
		names := resources(w, 4, 6)
		a := synchronizer(w, "Sync_A", oneOnCounted(names))
		b := synchronizer(w, "Sync_B", oncePerAny(names))
		w.begin()
		w.mistake(1 + w.rnd.IntN(6))
		if wrong := w.finished(); wrong != "" {
			return wrong
		}
		for _, s := range []*Synchronizer{a.synchronizer, b.synchronizer} {
			if s.lock != nil || len(s.waiting)+len(s.aborted)+len(s.refused) > 0 {
				return s.self + " is not free"
			}
			for _, name := range names {
				if got, want := s.Count(name, "on"), w.nodes[name].process.queue.Count("on"); got.Accepted != want.Accepted {
					return fmt.Sprintf("%s counts %d of %s, which has accepted %d", s.self, got.Accepted, name, want.Accepted)
				}
			}
		}
		return ""
	})
	assert.Zero(t, n)
}

// Crashes, restarts, false notices, late messages and both kinds of rules at once.
func TestAllThatCanHappenAtOnce(t *testing.T) {
	t.Parallel()
	n, _ := count(t, seeds(1500), 0, func(w *world) string {
		names := resources(w, 4, 5)
		synchronizer(w, "S1", oneOnCounted(names))
		synchronizer(w, "S2", oncePerAny(names))
		synchronizer(w, "S3", oneOnCounted(names))
		crosswise(w)
		for _, name := range w.names {
			if w.rnd.IntN(3) == 0 {
				w.nodes[name].plan = 1 + w.rnd.IntN(60)
			}
		}
		w.begin()
		w.mistake(w.rnd.IntN(4))
		return w.finished()
	})
	assert.Zero(t, n)
}

// A process has a request end while another of the same method is verified. The counters that come with the commit are the later ones.
func TestACompletionBeforeACommitDoesNotUndoItsCounters(t *testing.T) {
	w := newWorld(0)
	plain(w, "P")
	synchronizer(w, "S", func(s *Synchronizer) {
		s.Constrain("P", "m", func(guard.Request) bool { return s.Count("P", "m").Current < 2 })
	})
	w.begin()
	p, s := w.nodes["P"], w.nodes["S"].synchronizer
	first := w.arrive("P", "m")
	w.arrow("P", "S")
	w.arrow("S", "P")
	require.Equal(t, Commit, w.arrow("P", "S"))
	require.Equal(t, 1, s.Count("P", "m").Current)
	w.arrive("P", "m")
	require.Equal(t, Verify, w.arrow("P", "S"))
	p.process.Complete(first)
	w.serve(p)
	require.Equal(t, Completed, w.arrow("P", "S"))
	require.Equal(t, OK, w.arrow("S", "P"))
	require.Equal(t, Commit, w.arrow("P", "S"))
	assert.Equal(t, guard.Counters{Invocations: 2, Accepted: 2, Current: 1, Completed: 1}, s.Count("P", "m"))
}

// The notice that a process has committed is lost, and the process sends its counters again. What waits is decided with these.
func TestWhatWaitsForALostCommitIsDecidedWithTheCountersThatComeAgain(t *testing.T) {
	for name, row := range map[string]struct {
		attempt uint64 // the last one that the process has committed, as it says
		dead    bool   // it was taken for dead
	}{
		"of the transaction":                            {attempt: 1},
		"of the transaction, and it was taken for dead": {attempt: 1, dead: true},
		"of a later one":                                {attempt: 2},
		"of a later one, and it was taken for dead":     {attempt: 2, dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSynchronizer("S", 1)
			alone := func(guard.Request) bool { return s.Count("A", "m").Current+s.Count("P", "m").Current == 0 }
			s.Constrain("A", "m", alone)
			s.Constrain("P", "m", alone)
			s.Start()
			receive := func(kind Kind, from string, m Message) (answers []Kind) {
				m.Kind, m.From, m.To, m.Epoch, m.ID.Process, m.ID.Incarnation = kind, from, "S", 1, from, 1
				m.Request = guard.Request{Method: "m"}
				s.Outbox()
				s.Receive(m)
				for _, answer := range s.Outbox() {
					answers = append(answers, answer.Kind)
				}
				return answers
			}
			receive(Installed, "A", Message{})
			receive(Installed, "P", Message{})
			require.Equal(t, []Kind{OK}, receive(Verify, "P", Message{Attempt: 1, Number: 1, Participants: []string{"S", "T"}}))
			require.Empty(t, receive(Verify, "A", Message{Attempt: 1, Number: 1, Participants: []string{"S", "T"}}), "it is older, and waits")
			if row.dead {
				s.Down("P", 0)
			}
			counters := map[string]guard.Counters{"m": {Invocations: 1, Accepted: 1, Current: 1}}
			answers := receive(Installed, "P", Message{Attempt: row.attempt, Counters: counters})
			assert.Equal(t, []Kind{Failed}, answers, "P is inside")
		})
	}
}
