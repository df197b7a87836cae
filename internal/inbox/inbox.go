package inbox

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/forecast"
	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/yield"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stats"
)

// Pipeline is a pipeline as its inboxes see it. Each pipeline makes one and
// gives it to all its inboxes. The functions are called without the lock of any
// inbox, unless they say otherwise.
type Pipeline struct {
	loopBounds

	// Name is the pipeline's name.
	Name string
	// Base is the zero of the pipeline's clock.
	Base time.Time
	// Clock reads the pipeline's clock, in nanoseconds; nil is the time since
	// Base. A test may have its own.
	Clock func() int64
	// AfterFunc sets a timer; nil is time.AfterFunc. A test may have its own.
	AfterFunc func(d time.Duration, f func()) Timer
	// Chance returns a random number from 0 to less than 1; nil is
	// rand.Float64. A simulator has its own.
	Chance func() float64
	// Reach returns the edge from one inbox to another, and ok false if the
	// other is not of this pipeline.
	Reach func(from, to *Inbox) (e Edge, ok bool)
	// Keep keeps the letter of a command that ended without an answer, or with
	// an error that leaves one. It is called before the ticket is settled: a
	// caller that learns of the end may look for the letter. It does not block.
	// May be nil, unless keys are parked: the letter has the hold on its key.
	Keep func(Ending) (letter uint64)
	// Follows says that workers store in [Member.Begun] which command of a
	// batch they begin. It is set before the stages start.
	Follows bool
	// Ended is called for the same commands, after their tickets were settled:
	// it may take its time.
	Ended func(Ending)
	// Full is called when an inbox has become full, once until it is not. May
	// be nil.
	Full func(*Inbox)
	// Slowed is called when an inbox pauses for the first time in a streak of
	// crashes, and again at each pause by which the streak has doubled.
	// Recovered is called when a command is completed after such a streak. Both
	// get the length of the streak, and may be nil.
	Slowed, Recovered func(in *Inbox, crashes int)
	// RoundEnd is called when the first worker has ended a round of a visit
	// plan, and Visited after every so many visits as [SharedPool.ReportVisits]
	// says. Both may be nil.
	RoundEnd, Visited func(*SharedPool)
	// Draining says that the whole pipeline is being drained. An inbox that
	// becomes empty sends to Quiet then, and also while it is drained by
	// itself.
	Draining atomic.Bool
	// Quiet has a buffer of one.
	Quiet chan struct{}
	// InFlight adds up how many commands are in all inboxes.
	InFlight func() int
	// Held adds up how many of them guards hold back, or wait because their
	// keys are parked.
	Held func() int
	// InLoop reports whether commands can get from either of two inboxes to the
	// other.
	InLoop func(from, to *Inbox) bool
	// MaxInFlight bounds the commands in flight that loops may add to; 0: not
	// at all.
	MaxInFlight int

	deadLettered atomic.Uint64
	answered     atomic.Uint64 // dead-lettered commands that left no letter
	settling     atomic.Int32  // goroutines that end commands which have lapsed

	entry gate.Entry
}

// Edge is an edge between two inboxes, as the workers that take it see it.
type Edge struct {
	Back bool // it closes a loop
	// Moved counts the commands that workers have handed over along it. It
	// belongs to the edge, and is written without a lock.
	Moved *atomic.Uint64
}

// loopBounds is what a pipeline knows of its loops.
type loopBounds struct {
	loops  gate.Allowance
	looped atomic.Bool   // there has been a back edge
	lapses atomic.Bool   // commands that may lapse have been submitted
	edges  atomic.Uint32 // see EdgesVersion
}

// Timer is a time.Timer, or what a test has in its place.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Attach makes an inbox part of the pipeline, once. It reports whether the inbox
// was part of none.
func (pl *Pipeline) Attach(in *Inbox) bool { return in.state.pipeline.CompareAndSwap(nil, pl) }

// Detach takes an inbox out of the pipeline, which was never started.
func (pl *Pipeline) Detach(in *Inbox) { in.state.pipeline.CompareAndSwap(pl, nil) }

func (pl *Pipeline) afterFunc(d time.Duration, f func()) Timer {
	if pl.AfterFunc != nil {
		return pl.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

func (pl *Pipeline) chance() float64 {
	if pl.Chance != nil {
		return pl.Chance()
	}
	return rand.Float64()
}

// Now reads the pipeline's clock.
func (pl *Pipeline) Now() int64 {
	if pl.Clock != nil {
		return pl.Clock()
	}
	return int64(time.Since(pl.Base))
}

// NotifyQuiet has a drain look at the inboxes. It may be called in vain: the
// drain reads their accounts.
func (pl *Pipeline) NotifyQuiet() {
	select {
	case pl.Quiet <- struct{}{}:
	default:
	}
}

// Ending is the end of a command without an answer, or, with reason.Error, with
// an error that leaves a letter.
type Ending struct {
	Inbox  *Inbox
	Cmd    any
	Reason reason.Reason
	Err    error
	Tries  int
	At     time.Time
	From   int  // the place, plus one, of the stage whose handler emitted the command; 0 if it is not known
	Heard  bool // the source of the command deals with its end; see command.NewWatch
	// ComesAgain says that the next process has the command again if a hard
	// stop has ended it.
	ComesAgain bool
	// Answered says that the command leaves no letter, because a caller has it
	// and the error.
	Answered bool
	// Park is the hold on the key of the command, which ends with the letter;
	// nil if the key is not parked.
	Park   *Park
	Letter uint64 // the number of its letter; 0 if there is none, or it is not known yet
}

// Park is the hold of a letter on the key of its command. A nil Park holds
// nothing.
type Park struct {
	in    *Inbox
	lane  *line.Lane
	ended atomic.Bool
}

// Inbox is the queue of one stage, its accounts, and its view of the workers: a
// state machine behind a lock. An exported method takes the lock, runs one
// transition of the [state], and releases the lock with [Inbox.unlock], which
// applies what the transition asks for.
type Inbox struct {
	// StartWorker starts a worker of the stage's own that was called and has
	// not been started; set before AddUnstarted is called. Like [Member.Wake]
	// it does not block.
	StartWorker func()
	// Owner is what the stage wants to find again; set before the inbox is
	// opened.
	Owner any
	// Place is the stage's place in its pipeline; set before the inbox is
	// opened.
	Place int

	inlet *behaviour.Inlet
	rules gate.Rules // for commands from outside

	mu    yield.Lock // guards state
	state state      // the transitions and questions are its methods
}

// New returns an inbox that was not opened.
func New(cfg Config) *Inbox {
	in := &Inbox{}
	in.state.self = in
	in.configure(cfg)
	in.inlet = link.NewInlet(cfg.Name, in)
	return in
}

// configure makes an inbox that was not opened follow a configuration.
func (in *Inbox) configure(cfg Config) {
	in.state.cfg, in.state.pace.limit, in.state.knobs = &cfg, 1, cfg.knobs()
	in.state.queue.woken = nil
	switch {
	case cfg.Ordered:
		in.state.queue.install(line.Sequenced(), false)
	case cfg.Key != nil:
		in.state.queue.install(line.Keyed(line.Keys{Of: cfg.Key, InTurn: true, Most: cfg.KeyCapacity, Rate: cfg.RateBy, Parks: cfg.Parks}), false)
	case cfg.Share != nil:
		in.state.queue.install(line.Fair(line.Shares{Rank: cfg.Share, AtOnce: cfg.AtOnce, Most: cfg.KeyCapacity}), false)
	case cfg.RateKey != nil:
		in.state.queue.install(line.Keyed(line.Keys{Of: cfg.RateKey, Rate: cfg.RateBy}), false)
	case cfg.Guards != nil:
		in.state.queue.install(line.Guarded(cfg.Name, cfg.Guards, in.state.now, in.mu.Unlock), false)
	default:
		in.state.queue.install(line.FIFO(&in.state.queue.ring), true)
	}
	in.state.queue.line.Resize(cfg.Capacity)
	in.state.queue.order(cfg.Discipline)
	in.state.pace.rate, in.state.retryBudget = newLimit(cfg.Rate), backoff.NewBudget(cfg.Retry.Budget)
}

// Relay makes an inbox that was not opened the inbox of a stage whose commands
// are handled in another process. One worker sends the queued commands there,
// many together, in the order of their arrival. If commands may be suspended,
// instances bounds the commands under way. The other options of the stage apply
// in the other process. If elsewhere is not nil, no commands can be sent there,
// and they are refused with it.
func (st Settings) Relay(batch, instances int, elsewhere error) {
	st.in.mu.Lock()
	defer st.in.mu.Unlock()
	st.in.configure(Config{
		Name: st.in.state.cfg.Name, Capacity: st.in.state.cfg.Capacity, Overflow: st.in.state.cfg.Overflow, Batch: batch, Together: true, Instances: instances,
		Retry: Retry{Attempts: 1}, Pauses: st.in.state.cfg.Pauses, StreakEnds: st.in.state.cfg.StreakEnds, Discipline: queue.FIFO{}, Elsewhere: elsewhere,
	})
}

// ask answers a question about the state.
func ask[T any](in *Inbox, question func(s *state) T) T {
	in.mu.Lock()
	defer in.mu.Unlock()
	return question(&in.state)
}

// Inlet returns the inbox as commands are forwarded to it.
func (in *Inbox) Inlet() *behaviour.Inlet { return in.inlet }

// Name returns the stage's name.
func (in *Inbox) Name() string { return in.state.cfg.Name }

// Config returns what the inbox was made with. It must not be changed.
func (in *Inbox) Config() *Config { return in.state.cfg }

// IsOpen reports whether the inbox takes commands from outside.
func (ph Phases) IsOpen() bool { return ph.in.state.phase() == open }

// Len returns how many commands are queued.
func (in *Inbox) Len() int {
	return ask(in, func(s *state) int { return s.queue.Len() })
}

// Load returns how many commands are in the inbox.
func (in *Inbox) Load() int {
	return ask(in, func(s *state) int { return s.load() })
}

// counts are the accounts that transitions write.
type counts struct {
	gauges
	stats.Counts // totals; [state.totals] adds counts that are written elsewhere

	refused    *refused // nil if no command was refused, shed or given up yet
	abandoned  int32    // handlers that were given up and still run
	wait, work histogram.Histogram
}

// refused is what is known of commands that were not accepted or not handled.
// Most stages have none.
type refused struct {
	reasons  stats.Reasons
	forecast forecast.Forecast // of how long a refused command would have waited
}

func (c *counts) addRejected(why reason.Reason, n int) {
	c.Rejected += uint64(n)
	if n > 0 {
		addReason(&c.byReason().Rejected, why, n)
	}
}

func (c *counts) addShed(why reason.Reason, n int) {
	c.Shed += uint64(n)
	if n > 0 {
		addReason(&c.byReason().Shed, why, n)
	}
}

func (c *counts) addDeadLettered(why reason.Reason, n int) {
	c.DeadLettered += uint64(n)
	if n > 0 {
		addReason(&c.byReason().DeadLettered, why, n)
	}
}

// byReason returns the totals by reason.
func (c *counts) byReason() *stats.Reasons { return &c.ofRefused().reasons }

// ofRefused returns what is known of refused commands, and makes it the first
// time.
func (c *counts) ofRefused() *refused {
	if c.refused == nil {
		c.refused = new(refused)
	}
	return c.refused
}

func addReason(by *map[reason.Reason]uint64, why reason.Reason, n int) {
	if *by == nil {
		*by = map[reason.Reason]uint64{}
	}
	(*by)[why] += uint64(n)
}

// gauges are the accounts that also shrink.
type gauges struct {
	inHand, busy, blocked, mostOut int
	suspended                      int // of those in hand, in no worker's batch; below 0 while a worker has not booked yet
}

// countEmitted counts a command that a handler of the inbox emits, at the
// instant at which another inbox queues it: the lock of that one is held. Nil
// counts nothing.
func (in *Inbox) countEmitted() {
	if in != nil {
		in.state.emittedSingly.Add(1)
	}
}

// Knobs returns the present knobs.
func (st Settings) Knobs() Knobs {
	return ask(st.in, func(s *state) Knobs { return s.knobs.Knobs })
}

// Quality is the quality that handlers are asked for. Any goroutine may read
// it.
func (st Settings) Quality() float64 { return math.Float64frombits(st.in.state.knobs.quality.Load()) }

// The methods of an inbox are in groups, each for one of its callers: a caller
// sees the part of the inbox that is its business. A group is a type with the
// inbox in it and no state of its own, so it costs nothing to ask for it. The
// methods of [Inbox] itself are those that every caller may need, and the turns
// of a worker; see docs/decisions/inbox.md.

// Workers are the stage's own workers, as the supervisor of their pool and they
// themselves see them: how workers join, leave, are called and crash.
type Workers struct{ in *Inbox }

// Workers returns the stage's own workers.
func (in *Inbox) Workers() Workers { return Workers{in} }

// Instances are the values that the workers handle commands with.
type Instances struct{ in *Inbox }

// Instances returns the instances of the stage.
func (in *Inbox) Instances() Instances { return Instances{in} }

// Batches are the commands that workers have and handlers may still be at: how
// they are suspended and resumed, and how a hard stop ends them.
type Batches struct{ in *Inbox }

// Batches returns the commands in the batches of workers.
func (in *Inbox) Batches() Batches { return Batches{in} }

// Senders are the workers and handlers of other inboxes that have commands for
// this one.
type Senders struct{ in *Inbox }

// Senders returns the side of the inbox that other inboxes send to.
func (in *Inbox) Senders() Senders { return Senders{in} }

// Results are the results of an ordered stage. Of others there are none.
type Results struct{ in *Inbox }

// Results returns the results that wait until they may leave.
func (in *Inbox) Results() Results { return Results{in} }

// Marks are the marks of an inbox; see [Mark].
type Marks struct{ in *Inbox }

// Marks returns the marks of the inbox.
func (in *Inbox) Marks() Marks { return Marks{in} }

// Phases are the life of an inbox, from its opening to its end, as the pipeline
// sees it.
type Phases struct{ in *Inbox }

// Phases returns the life of the inbox.
func (in *Inbox) Phases() Phases { return Phases{in} }

// Settings are the settings of an inbox: what can be changed while it is open,
// and how it is set up before.
type Settings struct{ in *Inbox }

// Settings returns the settings of the inbox.
func (in *Inbox) Settings() Settings { return Settings{in} }
