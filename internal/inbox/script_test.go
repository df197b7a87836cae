package inbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/stage/queue"
)

// The files in testdata are conversations with an inbox: a line says what a worker, a submitter or the pipeline does, and below
// the four dashes stands all that follows from it. They are the documentation of the transitions, and the net below a change of
// the code: `go test ./internal/inbox -run Scripts -rewrite` records them anew, and the difference is for a reader to judge.
//
// Only this file knows how the inbox is called. Commands are names such as a or k/a: what stands before the slash is the key in
// a keyed stage, and the priority in one with priorities. Time stands still but for "sleep".
//
//	stage OPTION...       a new inbox, opened: capacity=4 batch=4 overflow=wait|reject|newest|oldest tries=3 backoff=1s ttl=1s
//	                      rate=1/1s instances=2 linger=1s keyed ordered priority suspends
//	join W...             workers of the stage's own start
//	submit C...           one submitter for each command; cancel C ends the wait of one
//	ask C                 like submit, with a caller; hang-up C ends the caller's context
//	hand S C...           worker S of the stage before hands commands over; with "back" along a back edge, with "on" it does
//	                      not wait when the inbox is full
//	turn W                worker W takes its turn: it books what it did and takes the next commands; with "on" it does not park
//	ok W C, fail W C, forward W C      the handler of C has returned; booked with the next turn, or "book W"
//	later W C             C failed and may be tried again; with after=1s not before that time
//	suspend W C           the handler of C waits; resume C lets it go on
//	crash W [C]           the handler of C has crashed; without C it is not known which of the batch. The worker joins again by "join"
//	  tried               C may be tried again
//	park W C              C has failed and leaves a letter, which parks its key, as the letter of a crash does in a stage with "parks"
//	again C [as=D]        the letter of C is retried, and leaves the store; forget C only has it leave
//	carry W N             W carries N commands that the stages after it have no slots for
//	set KNOB=V...         capacity, batch, instances, paused, disabled
//	order DISCIPLINE      fifo, lifo, priority
//	close, open, drain, bar, seal, end-drain, halt       the phases
//	sleep 1s              time passes
//	accounts              the accounts
func TestScriptsOfTheInbox(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			defer s.end()
			datadriven.RunTest(t, path, s.run)
		})
	})
}

// script is an inbox with the workers and submitters of one file.
type script struct {
	in      *Inbox
	before  *Inbox // of the stage before
	workers map[string]*scriptWorker
	waiting map[string]context.CancelFunc // submitters
	callers map[string]context.CancelFunc
	held    map[string]command.Envelope // suspended commands
	letters map[string]*Park            // of commands whose keys are parked
	notes   []string

	mu      sync.Mutex // guards what follows and waiting: submitters run on goroutines of their own
	answers []string
}

type scriptWorker struct {
	Member
	name  string
	tally Tally
	todo  []command.Envelope
	items []command.Envelope // that a worker of the stage before has to hand over
}

// end ends the waits, so that the bubble of the test ends.
func (s *script) end() {
	if s.in == nil {
		return
	}
	for _, cancel := range s.waiting {
		cancel()
	}
	s.in.Phases().Halt()()
	s.in.Phases().StopTimers()
	synctest.Wait()
}

func (s *script) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// run runs one command of a file and returns what followed.
func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.notes, s.answers = nil, nil
	do, ok := scriptCommands[d.Cmd]
	if !ok {
		d.Fatalf(t, "no command %q", d.Cmd)
	}
	if d.Cmd != "stage" && s.in == nil {
		d.Fatalf(t, "no stage yet")
	}
	do(s, t, d)
	synctest.Wait()
	if s.in.mu.TryLock() { // for the race detector: what timers wrote comes before what is read here
		s.in.mu.Unlock()
	}
	slices.Sort(s.answers)
	return strings.Join(slices.Concat(s.notes, s.answers, []string{s.state()}), "\n") + "\n"
}

// state is where the commands are.
func (s *script) state() string {
	var parts []string
	add := func(where string, names []string) {
		if len(names) > 0 {
			parts = append(parts, where+" "+strings.Join(names, " "))
		}
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	var queued []string
	s.in.state.queue.line.Count(func(e *command.Envelope) bool { queued = append(queued, nameOf(e)); return false })
	if s.in.Config().Keyed() { // its lanes are in no order; each of them is
		slices.SortStableFunc(queued, func(a, b string) int { return strings.Compare(part(a), part(b)) })
	}
	add("queued:", queued)
	var delayed []string
	for _, x := range s.in.state.delayed.heap {
		delayed = append(delayed, nameOf(&x.e))
	}
	slices.Sort(delayed)
	add("delayed:", delayed)
	for _, name := range sorted(s.workers) {
		w := s.workers[name]
		add(name+":", namesOf(w.todo))
		add(name+" keeps:", namesOf(w.items))
	}
	add("suspended:", sorted(s.held))
	add("letters:", sorted(s.letters))
	add("waiting:", sorted(s.waiting))
	if len(parts) == 0 {
		return "-- empty"
	}
	return "-- " + strings.Join(parts, "  ")
}

func sorted[V any](of map[string]V) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func nameOf(e *command.Envelope) string {
	switch load := link.Bare(e.Load).(type) {
	case string:
		return load
	case *suspendedScript:
		return load.name
	default:
		return fmt.Sprint(load)
	}
}

// suspendedScript is the run of a suspended command.
type suspendedScript struct{ name string }

func namesOf(es []command.Envelope) (all []string) {
	for i := range es {
		name := nameOf(&es[i])
		if tries := es[i].Tries(); tries > 0 {
			name += "(" + strconv.Itoa(tries) + ")"
		}
		all = append(all, name)
	}
	return all
}

// part is what stands before the slash in the name of a command.
func part(load any) string {
	before, _, _ := strings.Cut(load.(string), "/")
	return before
}

var scriptCommands = map[string]func(*script, *testing.T, *datadriven.TestData){
	"stage":     (*script).stage,
	"join":      (*script).join,
	"submit":    (*script).submit,
	"cancel":    (*script).cancel,
	"ask":       (*script).ask,
	"hang-up":   (*script).hangUp,
	"hand":      (*script).hand,
	"turn":      (*script).turn,
	"ok":        func(s *script, t *testing.T, d *datadriven.TestData) { s.finish(t, d).OK++ },
	"fail":      func(s *script, t *testing.T, d *datadriven.TestData) { s.finish(t, d).Errors++ },
	"forward":   func(s *script, t *testing.T, d *datadriven.TestData) { s.finish(t, d).Forwarded++ },
	"book":      (*script).book,
	"later":     (*script).later,
	"suspend":   (*script).suspend,
	"resume":    (*script).resume,
	"crash":     (*script).crash,
	"park":      (*script).park,
	"again":     (*script).again,
	"forget":    (*script).forget,
	"carry":     (*script).carry,
	"leave":     (*script).leave,
	"shrink":    (*script).shrink,
	"set":       (*script).set,
	"order":     (*script).order,
	"close":     func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().Close() },
	"open":      func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().Open() },
	"drain":     func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().Drain() },
	"bar":       func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().BlockUpstream() },
	"seal":      func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().BlockBackEdges() },
	"end-drain": func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().EndDrain() },
	"halt":      func(s *script, _ *testing.T, _ *datadriven.TestData) { s.in.Phases().Halt()() },
	"sleep":     (*script).sleep,
	"accounts":  (*script).accounts,
}

// stage makes the inbox.
func (s *script) stage(t *testing.T, d *datadriven.TestData) {
	s.end()
	*s = script{workers: map[string]*scriptWorker{}, waiting: map[string]context.CancelFunc{},
		callers: map[string]context.CancelFunc{}, held: map[string]command.Envelope{},
		letters: map[string]*Park{}}
	cfg := Config{Name: "s", Capacity: 4, Batch: 4, StreakEnds: time.Minute, Retry: Retry{Attempts: 1, Max: time.Minute}}
	suspends := false
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, "")
		switch arg.Key {
		case "capacity":
			cfg.Capacity = number(t, d, value)
		case "batch":
			cfg.Batch = number(t, d, value)
		case "instances":
			cfg.Instances = number(t, d, value)
		case "tries":
			cfg.Retry.Attempts = number(t, d, value)
		case "overflow":
			cfg.Overflow = map[string]Overflow{"wait": Wait, "reject": Reject, "newest": DropNewest, "oldest": DropOldest}[value]
		case "backoff":
			cfg.Retry.Backoff = span(t, d, value)
		case "ttl":
			cfg.TTL = span(t, d, value)
		case "linger":
			cfg.Linger = span(t, d, value)
		case "rate":
			n, per, _ := strings.Cut(value, "/")
			cfg.Rate = rate.Limit{N: number(t, d, n), Per: span(t, d, per), Burst: number(t, d, n)}
		case "keyed":
			cfg.Key = func(load any) uint64 {
				h := fnv.New64a()
				_, _ = h.Write([]byte(part(link.Bare(load))))
				return h.Sum64()
			}
		case "parks":
			cfg.Parks, cfg.KeyCapacity = true, line.QuarterOfCapacity
		case "ordered":
			cfg.Ordered = true
		case "priority":
			cfg.Discipline = byPart()
		case "suspends":
			suspends = true
		default:
			d.Fatalf(t, "no option %q", arg.Key)
		}
	}
	s.in = New(cfg)
	if suspends {
		s.in.Settings().SetSuspends()
	}
	s.in.state.pace.limit = cfg.Batch // as if the handlers were known to be quick
	pl := &Pipeline{
		Base:  time.Now().Add(-time.Second),
		Ended: func(e Ending) { s.note("%v: dead letter, %s: %v", e.Cmd, e.Reason, e.Err) },
		Keep: func(e Ending) uint64 {
			if e.Park != nil {
				s.letters[e.Cmd.(string)] = e.Park
			}
			return 0
		},
		Full:  func(*Inbox) { s.note("the inbox is full") },
		Quiet: make(chan struct{}, 1),
	}
	s.before = New(Config{Name: "before", Capacity: 1, Batch: 1})
	for _, in := range []*Inbox{s.in, s.before} {
		pl.Attach(in)
		in.Phases().Open()
	}
}

// byPart is a discipline: the command with the largest number before the slash first.
func byPart() queue.Discipline {
	return queue.PriorityOf(func(load string) int {
		n, _ := strconv.Atoi(part(load))
		return n
	})
}

func number(t *testing.T, d *datadriven.TestData, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

func span(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	span, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return span
}

// words are the arguments without a value, but for some.
func words(d *datadriven.TestData, without ...string) (all []string) {
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 && !slices.Contains(without, arg.Key) {
			all = append(all, arg.Key)
		}
	}
	return all
}

// worker returns the worker that the first argument names; it makes it if there is none.
func (s *script) worker(d *datadriven.TestData) *scriptWorker {
	return s.named(d.CmdArgs[0].Key)
}

func (s *script) named(name string) *scriptWorker {
	w := s.workers[name]
	if w == nil {
		w = &scriptWorker{name: name}
		w.Wake = func() { s.note("%s is woken", name) }
		s.workers[name] = w
	}
	return w
}

func (s *script) join(_ *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		w := s.named(name)
		again := w.attendance.Joined()
		s.in.Workers().Join(&w.Member, again)
	}
}

func (s *script) submit(t *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		s.send(t.Context(), name, command.Envelope{Load: name})
	}
}

func (s *script) send(ctx context.Context, name string, e command.Envelope) {
	ctx, cancel := context.WithCancel(ctx)
	s.waiting[name] = cancel
	go func() {
		err := s.in.Submit(ctx, &e)
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.waiting, name); err != nil {
			s.answers = append(s.answers, fmt.Sprintf("%s: refused: %v", name, err))
		}
	}()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[name] != nil {
		s.note("%s: its submitter waits", name)
	}
}

func (s *script) cancel(t *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		if s.waiting[name] == nil {
			d.Fatalf(t, "the submitter of %s does not wait", name)
		}
		s.waiting[name]()
	}
}

func (s *script) ask(t *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		ctx, hangUp := context.WithCancel(t.Context())
		s.callers[name] = hangUp
		ticket := command.NewTicket(func(_ any, err error) {
			if err == nil {
				return
			}
			s.note("%s: its caller hears: %v", name, err)
		})
		s.send(t.Context(), name, command.Envelope{Load: name, From: ticket.Asked(ctx, nil)})
	}
}

func (s *script) hangUp(_ *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		s.callers[name]()
	}
	synctest.Wait()
}

func (s *script) hand(_ *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	w.belong(s.before)
	for _, name := range words(d, "back", "on")[1:] {
		w.items = append(w.items, command.Envelope{Load: name})
	}
	n := s.in.Senders().HandOver(&w.Member, w.items, 0, d.HasArg("back"), !d.HasArg("on"))
	s.note("taken: %d of %d", n, len(w.items))
	if w.items = slices.Clone(w.items[n:]); len(w.items) > 0 && !w.Ready() {
		s.note("%s waits in line", w.name)
	}
}

func (s *script) turn(t *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	if len(w.todo) > 0 {
		d.Fatalf(t, "%s has not ended its batch", w.name)
	}
	switch n := s.in.Turn(&w.Member, &w.tally, !d.HasArg("on")); {
	case n > 0:
		w.todo = slices.Clone(w.Batch[:n])
		s.note("%s takes %s", w.name, strings.Join(namesOf(w.todo), " "))
	case n < 0:
		s.in.Workers().Leave(&w.Member)
		s.note("%s leaves", w.name)
	case w.Ready():
		s.note("%s finds nothing", w.name)
	default:
		s.note("%s parks", w.name)
	}
}

// take takes the command that the second argument names out of the worker's batch, where it must be the next.
func (s *script) take(t *testing.T, d *datadriven.TestData) (*scriptWorker, command.Envelope) {
	w := s.worker(d)
	if len(w.todo) == 0 || nameOf(&w.todo[0]) != d.CmdArgs[1].Key {
		d.Fatalf(t, "%s is not the next command of %s", d.CmdArgs[1].Key, w.name)
	}
	e := w.todo[0]
	w.todo = w.todo[1:]
	return w, e
}

func (s *script) finish(t *testing.T, d *datadriven.TestData) *Tally {
	w, e := s.take(t, d)
	if s.in.Config().Ordered {
		w.Part.EndBefore(len(w.todo))
	}
	e.Ticket().Settle(false, nil, nil)
	return &w.tally
}

func (s *script) book(_ *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	s.in.Book(&w.Member, &w.tally, nil)
}

func (s *script) later(t *testing.T, d *datadriven.TestData) {
	w, e := s.take(t, d)
	var asked time.Duration
	if d.HasArg("after") {
		asked = span(t, d, scanned(t, d, "after"))
	}
	e.Failed()
	if !s.in.Book(&w.Member, &w.tally, &Retried{Command: e, Rest: w.todo, Asked: asked}) {
		s.note("%s: not tried again after %d tries", nameOf(&e), e.Tries())
		w.tally.Errors++
		return
	}
	if s.in.Config().TakesBack() {
		w.todo = nil
	}
}

func scanned(t *testing.T, d *datadriven.TestData, key string) (value string) {
	d.ScanArgs(t, key, &value)
	return value
}

func (s *script) suspend(t *testing.T, d *datadriven.TestData) {
	w, e := s.take(t, d)
	name := nameOf(&e)
	e.Load = &suspendedScript{name}
	s.held[name] = e
	w.tally.Suspended++
	s.in.Book(&w.Member, &w.tally, nil)
}

func (s *script) resume(_ *testing.T, d *datadriven.TestData) {
	for _, name := range words(d) {
		e := s.held[name]
		delete(s.held, name)
		s.in.Batches().Resume(e)
	}
}

// errCrash is the crash of a handler.
var errCrash = errors.New("a crash")

func (s *script) crash(_ *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	var culprit *command.Envelope
	rest := w.todo
	if len(words(d, "tried")) > 1 {
		e := rest[0]
		culprit, rest = &e, rest[1:]
		culprit.Failed()
	} else {
		Narrow(rest)
	}
	w.todo = nil
	s.in.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: rest, Retry: d.HasArg("tried"), Err: errCrash})
	s.in.Yield(&w.Member)
}

func (s *script) park(t *testing.T, d *datadriven.TestData) {
	w, e := s.take(t, d)
	w.tally.Errors++
	x := &Parked{Command: e, Rest: w.todo}
	s.in.Book(&w.Member, &w.tally, x)
	if x.Took {
		w.todo = nil
	}
	s.in.Fail(&e, errCrash, x.Park)
}

func (s *script) again(t *testing.T, d *datadriven.TestData) {
	name := d.CmdArgs[0].Key
	load := name
	if d.HasArg("as") {
		load = scanned(t, d, "as")
	}
	if err := s.letters[name].Submit(t.Context(), &command.Envelope{Load: load}); err != nil {
		s.note("%s: refused: %v", load, err)
		return
	}
	s.forget(t, d)
}

func (s *script) forget(_ *testing.T, d *datadriven.TestData) {
	s.letters[d.CmdArgs[0].Key].End()
	delete(s.letters, d.CmdArgs[0].Key)
}

func (s *script) carry(t *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	s.in.Carry(&w.Member, number(t, d, d.CmdArgs[1].Key))
}

func (s *script) leave(_ *testing.T, d *datadriven.TestData) {
	w := s.worker(d)
	s.in.Workers().Leave(&w.Member)
}

func (s *script) shrink(t *testing.T, d *datadriven.TestData) {
	s.in.Workers().Shrink(number(t, d, d.CmdArgs[0].Key))
}

func (s *script) set(t *testing.T, d *datadriven.TestData) {
	s.in.Settings().Adjust(func(k *Knobs) {
		for _, arg := range d.CmdArgs {
			value := strings.Join(arg.Vals, "")
			switch arg.Key {
			case "capacity":
				k.Capacity = number(t, d, value)
			case "batch":
				k.Batch = number(t, d, value)
			case "instances":
				k.Instances = number(t, d, value)
			case "paused":
				k.Paused = value == "true"
			case "disabled":
				k.Disabled = value == "true"
			default:
				d.Fatalf(t, "no knob %q", arg.Key)
			}
		}
	})
}

func (s *script) order(t *testing.T, d *datadriven.TestData) {
	switch d.CmdArgs[0].Key {
	case "fifo":
		s.in.Settings().Order(queue.FIFO{})
	case "lifo":
		s.in.Settings().Order(queue.LIFO{})
	case "priority":
		s.in.Settings().Order(byPart())
	default:
		d.Fatalf(t, "no discipline %q", d.CmdArgs[0].Key)
	}
}

func (s *script) sleep(t *testing.T, d *datadriven.TestData) {
	s.in.mu.Lock() // for the race detector: what was read so far comes before what the timers will write
	s.in.mu.Unlock()
	time.Sleep(span(t, d, d.CmdArgs[0].Key))
}

func (s *script) accounts(*testing.T, *datadriven.TestData) {
	a := Snapshot([]*Inbox{s.in})[0]
	c, q, w := &a.Counts, &a.Queue, &a.Workers
	s.note("submitted %d  received %d  ok %d  forwarded %d  errors %d  shed %d  dead %d  rejected %d  retries %d  crashes %d",
		c.Submitted, c.Received, c.OK, c.Forwarded, c.Errors, c.Shed, c.DeadLettered, c.Rejected, c.Retries, c.Crashes)
	s.note("queued %d  in hand %d  delayed %d  suspended %d  carried %d  reserved %d  workers %d  busy %d  idle %d",
		q.Queued, q.InHand, q.Delayed, q.Suspended, q.Carried, q.Reserved, w.Live, w.Busy, w.Idle)
	if c.Accepted != c.Ended()+uint64(q.Load()) {
		s.note("THE ACCOUNTS DO NOT BALANCE")
	}
}
