package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/disturb"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
	"github.com/golda-dev/golda/window"
	"github.com/golda-dev/golda/worker"
)

// Time limits after which a plan counts as stuck. They are long because a busy
// machine is not a deadlock.
const (
	patience = 20 * time.Second // without progress
	limit    = 90 * time.Second // for a whole plan
)

// run is a running plan.
type run struct {
	plan     Plan
	name     string
	pipe     *pipeline.Pipeline
	sites    []*site
	added    []*stage.Stage[command] // stages that were added and not removed
	changed  bool                    // stages were removed, so their accounts are missing in snapshots
	drained  drains
	actions  map[string]uint64
	ids      atomic.Uint64
	accepted atomic.Uint64
	waiting  []*pendingAnswer
	feeders  []*feeder
	began    time.Time
	ran      chan error // receives the result of Run, if the plan ends Exhausted

	processes *processes // nil if no node visits them

	mu      sync.Mutex // guards all fields below
	letters map[command]int
	written int // dead letters
	refused int // emitted commands that MaxInFlight refused: they are in no account, but have a dead letter
	calls   []*pendingAnswer
	fed     map[uint64]*fedCommand // by their IDs
	excused map[uint64]bool        // IDs of commands of which there is a letter or an error
	// complete has the nodes whose groups were all that was left of a command,
	// by its ID.
	complete map[uint64]int
	broken   VerdictError
}

// pendingAnswer is a command whose answer is awaited.
type pendingAnswer struct {
	id     uint64
	ticket *stage.Ticket
	within context.Context // the command may end when this context does
}

// breachf records a broken promise. It keeps the first few.
func (r *run) breachf(p stagetest.Promise, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.broken) < 20 {
		r.broken = append(r.broken, &stagetest.BreachError{Promise: p, Detail: fmt.Sprintf(format, args...)})
	}
}

// Run makes the plan's pipeline, disturbs it while it works, stops it, and
// checks whether all promises were kept. The error is a [VerdictError] if they
// were not. A run takes at most two minutes. Only one plan may run at a time,
// and no other test beside it: their goroutines would count as leaked.
func (p Plan) Run() (Report, error) {
	report, r, err := p.once()
	if err != nil || !p.Resumes {
		return report, err
	}
	more, _, err := p.resumed(r).once()
	report.Add(more)
	report.Plans--
	return report, err
}

// once runs the plan in one process.
func (p Plan) once() (Report, *run, error) {
	before := goleak.IgnoreCurrent()
	r := &run{
		plan: p, name: fmt.Sprintf("chaos-%d", oracle.Number()), actions: map[string]uint64{},
		letters: map[command]int{}, fed: map[uint64]*fedCommand{}, excused: map[uint64]bool{},
	}
	report := Report{Plans: 1, Stages: len(p.Graph.Nodes)}
	if !r.start() {
		r.processes.close()
		report, err := r.close(report)
		return report, r, err
	}
	dog := stagetest.Watch(r.pipe, cmp.Or(p.Patience, patience))
	over := make(chan struct{})
	go func() { defer close(over); r.work(); r.end() }()
	stuck := false
	select {
	case <-over:
	case <-dog.Broken():
		stuck = true
	case <-time.After(limit):
		stuck = true
		r.breachf(Progress, "the plan is not over after %v\n%s\n%s", limit, stagetest.Diagnose(r.pipe.Snapshot()), oracle.Stacks())
	}
	r.broken = append(r.broken, breaches(dog.Stop())...)
	if stuck {
		r.showPlan()
	}
	report.Snapshots = dog.Snapshots()
	r.release()
	if stuck {
		r.forceStop(over)
		r.processes.close()
	} else {
		r.processes.close()
		r.judge()
		r.checkLeftovers(before)
	}
	report.absorb(r.pipe.Snapshot())
	if r.pipe.Err() != nil {
		report.GaveUp++
	}
	report, err := r.close(report)
	return report, r, err
}

// showPlan adds the plan to the breaches of a plan that is stuck, so that it
// can be run again.
func (r *run) showPlan() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.broken {
		if b.Promise == Progress {
			b.Detail = fmt.Sprintf("the plan:\n%#v\n%s", r.plan, b.Detail)
		}
	}
}

// close completes the report.
func (r *run) close(report Report) (Report, error) {
	report.Asked, report.Actions = r.ids.Load(), r.actions
	report.Faults = map[string]uint64{}
	for _, s := range r.sites {
		report.Faults = sum(report.Faults, s.injector.Counts())
		if n := s.badKeys.Load(); n > 0 {
			report.Faults["bad key"] += n
		}
	}
	if r.plan.End == Hard || r.plan.End == Soon {
		report.StoppedHard++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report.judge(r.broken)
	if len(r.broken) == 0 {
		return report, nil
	}
	return report, r.broken
}

// start makes and starts the pipeline.
func (r *run) start() bool {
	if err := r.plan.Check(); err != nil {
		r.breachf(Checks, "the plan is invalid: %v", err)
		return false
	}
	pol, err := r.plan.firstPolicy()
	if err != nil {
		r.breachf(Checks, "%v", err)
		return false
	}
	if err := r.startProcesses(); err != nil {
		r.breachf(Checks, "the processes do not start: %v", err)
		return false
	}
	parts := append(r.build(),
		pipeline.System(oracle.System()), pipeline.Control(pol), pipeline.Logger(slog.New(errorLog{run: r})),
		pipeline.Supervise(r.plan.Strategy), pipeline.Intensity(r.plan.intensity(), time.Second), pipeline.Grace(2*time.Second),
		pipeline.DeadLetters(r.letter), pipeline.Failures(r.failure))
	if r.plan.Middleware != (Middleware{}) {
		parts = append(parts, pipeline.Middleware(r.around(r.plan.Middleware, nil)))
	}
	if r.plan.MaxInFlight != 0 {
		parts = append(parts, pipeline.MaxInFlight(r.plan.MaxInFlight))
	}
	for i, name := range r.plan.GroupPolicies {
		if pol, err := r.plan.policyNamed(name); err == nil && r.plan.Graph.hasStages(i+1) {
			parts = append(parts, pipeline.ControlFor(groupName(i+1), pol))
		}
	}
	if r.pipe, err = pipeline.New(r.name, parts...); err != nil {
		r.breachf(Checks, "New refused: %v", err)
		return false
	}
	r.began = time.Now()
	start := func() error { return r.pipe.Start(context.Background()) }
	if r.plan.End == Exhausted {
		start = r.runExhausted
	}
	if err := start(); err != nil {
		r.breachf(Checks, "Start failed: %v", err)
		return false
	}
	return true
}

// letter handles a dead letter.
func (r *run) letter(l stage.DeadLetter) {
	r.excuseLost(l.Err)
	cmd, ok := l.Command.(command)
	r.mu.Lock()
	r.written++
	r.mu.Unlock()
	if crash, ok := errors.AsType[*stage.CrashError](l.Err); ok && !foreseen(crash) {
		r.breachf(Crashes, "%v\n%s", crash, crash.Stack)
	}
	if !ok {
		r.letterOfWindow(l)
		return
	}
	r.intact("a dead letter", cmd)
	r.mu.Lock()
	r.letters[command{ID: cmd.ID, Part: cmd.Part}]++
	n := r.letters[command{ID: cmd.ID, Part: cmd.Part}]
	r.excused[cmd.ID] = true
	r.stops(cmd.ID, l.Err)
	r.mu.Unlock()
	if n > 1 && !r.plan.copies() && l.Reason != reason.MaxInFlight { // another attempt may emit it again, also in vain
		r.breachf(OneEnd, "command %d, part %d, has %d dead letters: %v", cmd.ID, cmd.Part, n, l.Err)
	}
}

// failure handles the letter of a command that failed.
func (r *run) failure(l stage.DeadLetter) {
	r.excuseLost(l.Err)
	cmd, ok := l.Command.(command)
	if !ok {
		r.letterOfWindow(l)
		return
	}
	r.intact("a failure", cmd)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused[cmd.ID] = true
	r.stops(cmd.ID, l.Err)
}

// letterOfWindow handles a letter of a window that was not opened. The
// checkpoint of its first command waited for it.
func (r *run) letterOfWindow(l stage.DeadLetter) {
	all := commandsOf(l.Command)
	if len(all) == 0 {
		r.breachf(OneEnd, "a letter of a command that was not submitted: %v", l.Command)
		return
	}
	r.mu.Lock()
	r.stops(all[0].ID, l.Err)
	for _, cmd := range all {
		if c := r.fed[cmd.ID]; c != nil {
			c.letter = true
		}
	}
	r.mu.Unlock()
	for _, cmd := range all {
		r.intact("a letter", cmd)
		r.excuse(cmd.ID)
	}
}

// excuseLost notes that the commands of an aggregate that was lost with an
// error need not be handled.
func (r *run) excuseLost(err error) {
	if lost, ok := errors.AsType[*window.LostError](err); ok {
		for _, cmd := range commandsOf(lost.Window) {
			r.excuse(cmd.ID)
		}
	}
}

// stops notes that there is a letter of a command, and whether a stop has ended
// it, so that no checkpoint may pass it. The lock is held.
func (r *run) stops(id uint64, err error) {
	if c := r.fed[id]; c != nil {
		c.letter = true
		c.stopped = c.stopped || isAny(err, stage.ErrStopped, pipeline.ErrStopped)
	}
}

// excuse notes that a command, or the commands made from it, need not be
// handled everywhere.
func (r *run) excuse(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused[id] = true
}

// foreseen reports whether a crash was injected or has a known cause.
func foreseen(crash *stage.CrashError) bool {
	_, injected := errors.AsType[*stagetest.InjectedError](crash)
	return injected || errors.Is(crash, stage.ErrStuck) || errors.Is(crash, worker.ErrGoexit)
}

// work submits commands, and disturbs the pipeline meanwhile.
func (r *run) work() {
	var all sync.WaitGroup
	all.Go(r.disturb)
	lists := make([][]*pendingAnswer, r.plan.Submitters)
	for i := range lists {
		all.Go(func() { lists[i] = r.submit(rand.New(rand.NewPCG(r.plan.Seed, uint64(i)))) })
	}
	all.Wait()
	for _, list := range lists {
		r.waiting = append(r.waiting, list...)
	}
}

// submit runs one submitter.
func (r *run) submit(rnd *rand.Rand) (list []*pendingAnswer) {
	entries := r.plan.Graph.Entries
	for left := r.plan.Commands / r.plan.Submitters; left > 0; left-- {
		to := r.sites[entries[rnd.IntN(len(entries))]]
		if r.plan.Quiet && rnd.IntN(8) == 0 {
			n := 1 + rnd.IntN(min(left, 32))
			r.submitMany(rnd, to, n)
			left -= n - 1
			continue
		}
		cmd := r.newCommand(r.plan.Graph.Hops)
		ctx, cancel := r.submitContext(rnd)
		to.expect(cmd)
		if a := r.submitOne(ctx, rnd, to.stage, cmd); a != nil {
			list = append(list, a)
		}
		if rnd.IntN(2) == 0 {
			cancel()
		} else {
			defer cancel() // it ends a little later by itself
		}
	}
	return list
}

// submitOne submits a command, with or without a ticket.
func (r *run) submitOne(ctx context.Context, rnd *rand.Rand, to *stage.Stage[command], cmd command) *pendingAnswer {
	var ticket *stage.Ticket
	var err error
	if r.plan.Quiet && rnd.IntN(3) == 0 {
		err = to.Submit(ctx, cmd)
	} else {
		ticket, err = to.Ask(ctx, cmd)
	}
	if err != nil {
		if !refusal(err) {
			r.breachf(OneEnd, "command %d was refused for an unknown reason: %v", cmd.ID, err)
		}
		r.excuse(cmd.ID) // a command that was not accepted is handled nowhere
		return nil
	}
	r.accepted.Add(1)
	if ticket == nil {
		return nil
	}
	return &pendingAnswer{cmd.ID, ticket, ctx}
}

// emitted checks the error of an emitted command.
func (r *run) emitted(to string, err error) {
	switch {
	case errors.Is(err, stage.ErrMaxInFlight):
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
	case errors.Is(err, stage.ErrFull):
		r.breachf(OneEnd, "stage %s refused an emitted command: %v", to, err)
	}
}

// submitContext returns the context that limits how long a submitter waits for
// a free slot and for the answer. Some commands take its deadline along.
func (r *run) submitContext(rnd *rand.Rand) (context.Context, context.CancelFunc) {
	if !r.plan.Hasty || rnd.IntN(4) > 0 {
		return context.Background(), func() {}
	}
	limit := time.Duration(1+rnd.IntN(5)) * time.Millisecond
	if rnd.IntN(2) == 0 {
		return stage.WithDeadline(context.Background(), time.Now().Add(limit))
	}
	return context.WithTimeout(context.Background(), limit)
}

// refusal reports whether an error is one that may refuse a command.
func refusal(err error) bool {
	return isAny(err, stage.ErrFull, stage.ErrClosed, stage.ErrRate, stage.ErrPolicy, stage.ErrDisabled, stage.ErrStopped,
		context.DeadlineExceeded)
}

// isAny is errors.Is for several targets.
func isAny(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
}

// end stops the pipeline as the plan says.
func (r *run) end() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch r.plan.End {
	case Drained:
		if err := r.pipe.Drain(ctx); err != nil && r.pipe.Err() == nil {
			r.breachf(Progress, "drain: %v", err)
		}
	case Exhausted:
		r.exhaust()
	case Hard:
		cancel()
	case Soon:
		soon, stop := context.WithTimeout(ctx, 3*time.Millisecond)
		defer stop()
		ctx = soon
	case Twice:
		var others sync.WaitGroup
		for range 3 {
			others.Go(func() { _ = r.pipe.Stop(ctx) })
		}
		defer others.Wait()
	default: // softly
	}
	err := r.pipe.Stop(ctx)
	if err != nil && ctx.Err() == nil && r.pipe.Err() == nil {
		r.breachf(Progress, "stop: %v", err)
	}
}

// release releases handlers that are stuck.
func (r *run) release() {
	for _, s := range r.sites {
		s.injector.Release()
	}
}

// forceStop tries to end a pipeline that is stuck.
func (r *run) forceStop(over <-chan struct{}) {
	for _, s := range r.sites {
		_ = r.pipe.Resume(s.stage)
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _ = r.pipe.Stop(now) }()
	select {
	case <-over:
	case <-time.After(5 * time.Second):
	}
}

// judge checks the promises when everything has ended.
func (r *run) judge() {
	s := r.pipe.Snapshot()
	if promise, detail := oracle.AtRest(s); promise != "" {
		r.breachf(stagetest.Promise(promise), "%s", detail)
	}
	if err := r.pipe.Err(); err != nil && !r.plan.Fragile {
		r.breachf(Survival, "%v", err)
	}
	r.mu.Lock()
	calls := r.calls
	r.mu.Unlock()
	for _, a := range append(r.waiting, calls...) {
		r.answer(a)
	}
	if n := s.Shed + s.DeadLettered + uint64(r.refused); uint64(r.written)+s.Answered != n {
		r.breachf(OneEnd, "there were %d dead letters and %d answers for %d commands that were shed, dead-lettered or refused", r.written, s.Answered, n)
	}
	submitted := uint64(0)
	for i := range s.Stages {
		submitted += s.Stages[i].Counts.Submitted
	}
	if n := r.accepted.Load(); submitted != n && !r.changed {
		r.breachf(Law, "%d commands were accepted, the stages say %d", n, submitted)
	}
	r.judgeSites(s)
	r.judgeFeeds(s)
}

// judgeSites compares the counts of the handlers with the engine's figures.
func (r *run) judgeSites(s pipeline.Snapshot) {
	of := map[string]stage.Snapshot{}
	for _, st := range s.Stages {
		of[st.Name] = st
	}
	elapsed := time.Since(r.began)
	r.mu.Lock()
	excused := maps.Clone(r.excused)
	r.mu.Unlock()
	for i, site := range r.sites {
		if lost := site.lost(excused); uint64(len(lost)) > site.superseded(of[name(i)]) {
			r.breachf(OneEnd, "lost: stage %s: these were sent there and not handled, without a letter or an error: %+v", name(i), lost)
		}
		if err := site.checkRate(elapsed); err != nil {
			r.breachf(OneEnd, "%v", err)
		}
		if err := site.checkGuard(of[name(i)]); err != nil {
			r.breachf(OneEnd, "%v", err)
		}
		if err := site.judgeStates(); err != nil {
			r.breachf(States, "%v", err)
		}
		if err := site.count(of[name(i)]); err != nil {
			r.breachf(OneEnd, "%v", err)
		}
		for wait := time.Now(); site.started.Load() != site.stopped.Load() && time.Since(wait) < 2*time.Second; {
			time.Sleep(time.Millisecond)
		}
		if began, ended := site.started.Load(), site.stopped.Load(); began != ended {
			r.breachf(Instances, "stage %s: %d instances were started and %d stopped", name(i), began, ended)
		}
		if most := site.most.Load(); site.Timeout == 0 && site.Instances > 0 && most > int64(max(site.Instances, r.mostInstances(i))) {
			r.breachf(Instances, "stage %s: %d handlers at once, with %d instances", name(i), most, site.Instances)
		}
	}
}

// mostInstances returns the highest number of instances that the disturbances
// may have asked for.
func (r *run) mostInstances(int) int {
	for _, b := range r.plan.Disturbances {
		if b.Action == Swap || b.Action == Rescale {
			return 1 << 20 // policies may change the number
		}
	}
	return 0
}

func (r *run) lettersOf(id uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.letters[command{ID: id}]
}

// answer checks that a command has its own answer, and not another command's.
func (r *run) answer(a *pendingAnswer) {
	select {
	case <-a.ticket.Done():
	default:
		r.breachf(OneEnd, "lost: command %d has no answer", a.id)
		return
	}
	err := a.ticket.Err()
	if err == nil {
		if got := a.ticket.Result(); !r.isOf(got, a.id) {
			r.breachf(OneEnd, "command %d has the answer of another: %v", a.id, got)
		}
		if r.lettersOf(a.id) > 0 && !r.plan.copies() {
			r.breachf(OneEnd, "command %d has an answer and a dead letter", a.id)
		}
		return
	}
	r.excuse(a.id)
	r.excuseLost(err)
	crash, crashed := errors.AsType[*stage.CrashError](err)
	_, injected := errors.AsType[*stagetest.InjectedError](err)
	switch {
	case crashed && foreseen(crash), injected:
	case isAny(err, pipeline.ErrStopped) && (r.plan.End == Hard || r.plan.End == Soon || r.plan.Fragile):
	case isAny(err, stage.ErrFull, stage.ErrShed, stage.ErrMaxInFlight, stage.ErrStopped, stage.ErrDisabled, stage.ErrTimeout,
		stage.ErrExpired, coroutine.ErrStopped, window.ErrIncomplete):
	case a.within.Err() != nil && errors.Is(err, a.within.Err()):
	default:
		r.breachf(Crashes, "command %d ended with an unknown error: %v", a.id, err)
	}
}

// isOf reports whether a result is one of a command. A flow has no result, or a
// command.
func (r *run) isOf(result any, id uint64) bool {
	switch got := result.(type) {
	case nil:
		return slices.ContainsFunc(r.plan.Graph.Nodes, func(n Node) bool { return n.Flow != "" || n.Window.Kind != "" })
	case command:
		return got.ID == id
	default:
		return got == id
	}
}

// checkLeftovers looks for leaked goroutines and actors.
func (r *run) checkLeftovers(before goleak.Option) {
	if err := goleak.Find(before); err != nil {
		r.breachf(Goroutines, "%v", err)
	}
	if names := disturb.Actors(r.name); len(names) > 0 {
		r.breachf(Goroutines, "actors are left: %q", names)
	}
}
