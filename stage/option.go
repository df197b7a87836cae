package stage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/queue"
)

// Option sets one property of a stage; of two that set the same one the later counts. Options
// are checked when a pipeline is made of the stage; whatever is wrong with any of them, such
// as that it is nil, is then told at once.
type Option func(*settings)

// The defaults.
const (
	// DefaultCapacity is the number of slots in a stage's queue.
	DefaultCapacity = 1024
	// DefaultBatch is the most commands that a worker takes at once.
	DefaultBatch = 256
	// DefaultInstances is how many commands of a stage whose handlers may suspend are under
	// way at once.
	DefaultInstances = 1024
	// DefaultRetryBackoff is the pause before the second try of a command.
	DefaultRetryBackoff = time.Millisecond
	// DefaultRetryMax is the longest pause between two tries.
	DefaultRetryMax = time.Minute
)

// The limits: what is more is surely a mistake, and would only fail later.
const (
	maxCapacity = 1 << 30
	maxBatch    = 1 << 16
	maxWorkers  = 1 << 16
	maxTTL      = 24 * time.Hour // for longer an envelope does not know when it came
)

// OverflowRule says what a full stage does with one more command.
type OverflowRule uint8

// The four rules. What waits or is refused at the door was not accepted; what
// is dropped was.
const (
	// Wait lets a submitter wait for room until its context ends, and parks
	// the workers of stages that forward to this one.
	Wait = OverflowRule(inbox.Wait)
	// Reject refuses a submitter with [ErrFull]. A command that another stage
	// forwards is shed.
	Reject = OverflowRule(inbox.Reject)
	// DropNewest accepts the command and sheds it.
	DropNewest = OverflowRule(inbox.DropNewest)
	// DropOldest accepts the command and sheds the one that has been in the
	// queue for longest.
	DropOldest = OverflowRule(inbox.DropOldest)
)

// RetryPolicy says whether a command whose try did not succeed is tried again.
// The zero policy never does.
//
// A command that waits for its next try holds no worker, but it keeps its slot and counts against the
// stage's [Capacity]: a stage that is full of retries waits, refuses or drops at its entry as its [Overflow] rule says,
// and no retry is ever refused. (DropOldest drops no command that waits for its next try.) When the time has come it
// goes behind the commands that are queued, and behind those that wait for a slot: then it gives its own slot to the
// first of them, so that commands which fail again and again keep no other from its first try. At most 1024 commands
// of a stage, or its capacity if that is more, have given up their slot at once; beyond that they keep it.
type RetryPolicy struct {
	// Attempts is the most tries of one command, the first included; more than 65,535 is any number. 0 and 1
	// mean no retry.
	Attempts int
	// Backoff is the pause before the second try; it doubles with each
	// further one. 0 means [DefaultRetryBackoff], or Max if that is shorter.
	Backoff time.Duration
	// Max is the longest pause. 0 means [DefaultRetryMax], or ten times [DefaultRetryBackoff] if Backoff is 0
	// as well: a policy that asks for no pauses gets short ones.
	Max time.Duration
	// Jitter is the part of the pause, from 0 to 1, by which chance may make
	// it longer or shorter.
	Jitter float64
	// If chooses the errors that are worth another try: an Error outcome's
	// reason or a [*CrashError]. nil means all. It may be called by several
	// workers at once.
	If func(error) bool
}

// RestartPolicy says how a stage goes on when its workers keep crashing.
//
// What counts is the run of crashes that follow one another with no completed
// command between them; tries of the same command count once. As many crashes
// as there are workers are answered by a fresh instance at once, since each may
// just have met a command it cannot stomach. Each further one makes the next
// worker wait, twice as long as the last. Past Limit of those, the stage gives up:
// it fails towards the pipeline, with a [*BrokenError].
type RestartPolicy struct {
	// Limit is how many crashes beyond one for each worker a stage endures.
	// 0 means 15, below zero none.
	Limit int
	// Backoff is the first pause. 0 means 1 ms.
	Backoff time.Duration
	// Max is the longest pause. 0 means 1 s.
	Max time.Duration
	// Within is how long a run lasts: a crash that comes later than that
	// after the one before it begins a new run. 0 means a minute.
	Within time.Duration
}

// defaultPause is one value for the stages that say nothing.
var defaultPause = RestartPolicy{}.orDefault().pause

func (p RestartPolicy) orDefault() RestartPolicy {
	if p.Limit == 0 {
		p.Limit = 15
	}
	p.Limit = max(p.Limit, 0)
	if p.Backoff == 0 {
		p.Backoff = time.Millisecond
	}
	if p.Max == 0 {
		p.Max = max(time.Second, p.Backoff)
	}
	if p.Within == 0 {
		p.Within = time.Minute
	}
	return p
}

// pause is how long the worker after so many crashes too many has to wait. A
// fifth of it is left to chance, so that stages that broke together do not
// come back together.
func (p RestartPolicy) pause(beyond int) time.Duration {
	d := p.Backoff
	for i := 1; i < beyond && d < p.Max; i++ {
		d *= 2
	}
	d = min(d, p.Max)
	return d - time.Duration(rand.Float64()*0.2*float64(d))
}

// Workers sets the fewest and the most workers. A stage starts with the fewest, and the pipeline's
// controller moves between the bounds; equal bounds fix the number. Each worker runs one handler at a time, so
// Workers(1, 1) handles one command after the other, in the order of the queue. A policy that has stages share
// workers leaves a stage its own if it asks for more than the shared pool has. The default is GOMAXPROCS
// and four times that: the handlers of a new stage run in parallel from its second command on. A stage that is given
// fewer [Instances] than GOMAXPROCS, and no Workers, starts with one worker for each instance.
func Workers(fewest, most int) Option {
	return func(s *settings) { s.Fewest, s.Most, s.Asks = fewest, most, true }
}

// Instances sets how many workers may be at the stage at once, whatever their number;
// the default is the most of [Workers]. It matters where a pool of workers is shared by
// many stages, and for a stage of which there must be one instance only.
//
// Of a stage whose handlers may suspend ([Coroutine]) it sets how many commands may be under
// way at once: those that workers have in hand, and those that are suspended or have been woken. The
// default is [DefaultInstances]; each that is suspended holds about 3 KB.
func Instances(n int) Option {
	return func(s *settings) { s.Inbox.Instances, s.instances = n, true }
}

// suspending says that the behaviour is, and comes behind all that users say.
func suspending(s *settings) { s.suspends = true }

// Blocking says that the stage's handlers wait (for a disk, a peer, another stage)
// rather than compute. Policies that have stages share workers leave it its own, so that
// nobody else waits.
func Blocking() Option { return func(s *settings) { s.Blocking = true } }

// Capacity sets how many commands the queue has room for. The default is
// [DefaultCapacity].
func Capacity(n int) Option { return func(s *settings) { s.Inbox.Capacity = n } }

// Discipline sets the order in which the queue gives its commands out; the default is
// first in, first out. See stage/queue.
func Discipline(d queue.Discipline) Option {
	return func(s *settings) { s.Inbox.Discipline, s.disciplined = d, true }
}

// Overflow sets what the stage does when it is full. The default is [Wait].
func Overflow(rule OverflowRule) Option {
	return func(s *settings) { s.Inbox.Overflow = inbox.Overflow(rule) }
}

// Batch sets the most commands that a worker takes at once, [DefaultBatch] if
// not set. Below that the stage finds the size by itself: as many as take 100 µs,
// and no more than a fair share of the queue, or than its capacity. What a batch
// comes to leaves when the batch is done. So 1 is for handlers of which now and then
// one takes very long, or waits for what earlier ones forwarded: all other commands
// of its batch, those before it too, would wait for it. With more than 1, a worker of a stage that
// forwards to several others goes on when one of them is full and keeps what is for that one, up to
// the stage's [Capacity].
func Batch(n int) Option { return func(s *settings) { s.Inbox.Batch = n } }

// Linger has a batch that is not full wait for more commands, until the first of them
// has waited for d, or for a day if that is less. It is for a [behaviour.Batcher] that is so much better at many that
// it is worth the wait, such as an insertion of many rows. A stage that lingers takes as many
// commands at once as [Batch] says, however long they take. The default is not to wait.
func Linger(d time.Duration) Option { return func(s *settings) { s.Inbox.Linger = d } }

// TTL sets a time to live: a command that has waited in the stage's queue for longer than d when its turn comes is shed,
// with [ReasonExpired] and [ErrExpired], and its handler is not called. The default is to wait for ever; d is at most a
// day.
//
// The time counts from when the command came into the queue of this stage, and anew when it comes for another try; the
// pause before a try does not count. A command that has expired keeps its slot until its turn comes. One that was suspended
// has been begun and does not expire. See [ExpiresAt] for a time to live that each command has of its own, and
// [Stage.Ask] for commands that end with their callers' contexts.
func TTL(d time.Duration) Option { return func(s *settings) { s.Inbox.TTL = d } }

// ExpiresAt has a function say when a command expires: one whose turn comes later is shed as with [TTL]. The zero time is
// never. So that a command has one time to live for its whole way, give the option to each stage on it. C is the type of
// the stage's commands, or an interface: commands of other types never expire.
//
//	stage.New("send", sender, stage.ExpiresAt(Mail.Deadline))
//
// The function is called once for each try, by several workers at once, and the clock is read for it. If it panics that is
// a crash of the handler.
func ExpiresAt[C any](f func(cmd C) time.Time) Option {
	return func(s *settings) {
		s.expiring = reflect.TypeFor[C]()
		s.ExpiresAt = nil
		if f != nil {
			s.ExpiresAt = func(cmd any) time.Time {
				c, ok := cmd.(C)
				if !ok {
					return time.Time{}
				}
				return f(c)
			}
		}
	}
}

// Timeout sets a time limit for each command: its handler's context ends then,
// with the cause [ErrTimeout]. A [behaviour.Batcher] has it once for each batch. The default
// is no limit.
//
// Go cannot end a handler that does not look at its context. Past the limit and the stage's
// [Grace] its worker is given up: the command has crashed, with [ErrStuck] and the stack of
// where it is stuck, and is charged, retried or told like any that crashed; another worker
// takes the place, so that the stage stays at strength; and what the handler answers when
// it comes back is ignored.
func Timeout(d time.Duration) Option { return func(s *settings) { s.Timeout = d } }

// Grace sets how long a handler may go on, after its context has ended at its [Timeout], before its worker is given
// up. The default is as long as the time limit itself, and at least 100 ms. A [behaviour.Emit] that still waits when
// the grace is over fails with [ErrTimeout], whatever context it was given.
func Grace(d time.Duration) Option { return func(s *settings) { s.grace = d } }

// Retry sets when commands are tried again. By default they are not.
func Retry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

// Restart sets how the stage goes on when its workers keep crashing.
func Restart(p RestartPolicy) Option { return func(s *settings) { s.restart = p } }

// Out declares the ports that the stage's behaviour forwards to. A pipeline
// checks that each is wired, and knows the graph by them.
func Out(ports ...behaviour.Outlet) Option {
	return func(s *settings) { s.Outs = append(s.Outs, ports...) }
}

// Fault is one thing that is wrong with a stage's options.
type Fault struct {
	Stage   string // the stage's name
	Option  string // the option as it was given
	Problem string // what is wrong with it
}

// Error tells the stage, the option and the problem.
func (f *Fault) Error() string {
	return fmt.Sprintf("stage %q: %s: %s", f.Stage, f.Option, f.Problem)
}

// settings are a stage's properties.
type settings struct {
	engine.Config
	instances   bool          // were given
	suspends    bool          // handlers may suspend
	disciplined bool          // a discipline was given
	anarchic    bool          // and it is nil
	expiring    reflect.Type  // what ExpiresAt was given a function of; nil if it was not
	grace       time.Duration // as given
	retry       RetryPolicy
	restart     RestartPolicy
	nils        []int   // which options are nil, counted from one
	flaws       []error // what was found beyond the options
}

func newSettings(name string, opts []Option) *settings {
	s := &settings{
		Config: engine.Config{
			Inbox:  &inbox.Config{Name: name, Capacity: DefaultCapacity, Batch: DefaultBatch},
			Fewest: runtime.GOMAXPROCS(0),
			Most:   4 * runtime.GOMAXPROCS(0),
		},
	}
	for i, o := range opts {
		if o == nil {
			s.nils = append(s.nils, i+1)
			continue
		}
		o(s)
	}
	if engine.IsNil(s.Inbox.Discipline) {
		s.anarchic, s.Inbox.Discipline = s.disciplined, queue.FIFO{}
	}
	if s.instances && !s.suspends && !s.Asks {
		s.Fewest = max(min(s.Fewest, s.Inbox.Instances), 1) // a further worker would have no instance to use
	}
	switch {
	case s.instances:
	case s.suspends:
		s.Inbox.Instances = DefaultInstances
	default:
		s.Inbox.Instances = s.Most
	}
	retry := s.retry
	switch {
	case retry.Max == 0 && retry.Backoff == 0:
		retry.Max = 10 * DefaultRetryBackoff
	case retry.Max == 0:
		retry.Max = max(DefaultRetryMax, retry.Backoff)
	}
	if retry.Backoff == 0 {
		retry.Backoff = min(DefaultRetryBackoff, retry.Max)
	}
	s.Inbox.Retry = inbox.Retry{Attempts: retry.Attempts, Backoff: retry.Backoff, Max: retry.Max, Jitter: retry.Jitter}
	s.Inbox.StreakEnds = s.restart.orDefault().Within
	s.Inbox.Rest = defaultPause
	if s.restart != (RestartPolicy{}) {
		s.Inbox.Rest = s.restart.orDefault().pause
	}
	s.Endures, s.RetryIf, s.Grace = s.restart.orDefault().Limit, s.retry.If, s.patience()
	return s
}

// leastGrace is for handlers that do look at their context, and need a moment to return.
const leastGrace = 100 * time.Millisecond

// patience is the grace, if it was not given.
func (s *settings) patience() time.Duration {
	if s.grace > 0 {
		return s.grace
	}
	return max(s.Timeout, leastGrace)
}

// faults finds all that is wrong.
func (s *settings) faults() (all []error) {
	check := func(ok bool, problem, option string, args ...any) {
		if !ok {
			all = append(all, &Fault{s.Inbox.Name, fmt.Sprintf(option, args...), problem})
		}
	}
	for _, i := range s.nils {
		check(false, "is nil", "option %d", i)
	}
	check(s.Inbox.Name != "", "a stage needs a name", "New(%q)", s.Inbox.Name)
	check(utf8.ValidString(s.Inbox.Name), "the name is not UTF-8", "New(%q)", s.Inbox.Name)
	check(s.Inbox.Capacity >= 1, "must be at least 1", "Capacity(%d)", s.Inbox.Capacity)
	check(!s.instances || s.Inbox.Instances >= 1, "must be at least 1", "Instances(%d)", s.Inbox.Instances)
	check(s.Inbox.Batch >= 1, "must be at least 1", "Batch(%d)", s.Inbox.Batch)
	check(s.Inbox.Capacity <= maxCapacity, fmt.Sprintf("must be at most %d", maxCapacity), "Capacity(%d)", s.Inbox.Capacity)
	check(s.Inbox.Batch <= maxBatch, fmt.Sprintf("must be at most %d", maxBatch), "Batch(%d)", s.Inbox.Batch)
	check(s.Most <= maxWorkers, fmt.Sprintf("the most workers must be at most %d", maxWorkers), "Workers(%d, %d)", s.Fewest, s.Most)
	check(s.Inbox.Overflow <= inbox.DropOldest, "no such rule", "Overflow(%d)", s.Inbox.Overflow)
	check(s.Fewest >= 1, "the fewest workers must be at least 1", "Workers(%d, %d)", s.Fewest, s.Most)
	check(s.Fewest <= s.Most, "the fewest workers must not be more than the most", "Workers(%d, %d)", s.Fewest, s.Most)
	check(s.grace >= 0, "must not be negative", "Grace(%v)", s.grace)
	check(s.grace == 0 || s.Timeout > 0, "means nothing without a Timeout", "Grace(%v)", s.grace)
	check(s.Inbox.Linger >= 0, "must not be negative", "Linger(%v)", s.Inbox.Linger)
	check(s.Inbox.TTL >= 0, "must not be negative", "TTL(%v)", s.Inbox.TTL)
	check(s.Inbox.TTL <= maxTTL, fmt.Sprintf("must be at most %v", maxTTL), "TTL(%v)", s.Inbox.TTL)
	check(s.Inbox.TTL == 0 || s.Inbox.TTL > s.Inbox.Linger, "must be more than Linger: each batch that is not full would expire",
		"TTL(%v)", s.Inbox.TTL)
	check(s.expiring == nil || s.ExpiresAt != nil, "the function is nil", "ExpiresAt")
	check(s.Timeout >= 0, "must not be negative", "Timeout(%v)", s.Timeout)
	s.checkDiscipline(check)
	s.checkRetry(check)
	s.checkRestart(check)
	s.checkOuts(check)
	return all
}

type checker func(ok bool, problem, option string, args ...any)

func (s *settings) checkDiscipline(check checker) {
	d := s.Inbox.Discipline
	if !s.disciplined {
		return
	}
	if s.anarchic {
		check(false, "is nil", "Discipline(nil)")
		return
	}
	if err := d.Check(); err != nil {
		check(false, err.Error(), "Discipline(%s)", d.Name())
	}
}

func (s *settings) checkRetry(check checker) {
	r := s.retry
	check(r.Attempts >= 0, "must not be negative", "Retry(Attempts: %d)", r.Attempts)
	check(r.Backoff >= 0, "must not be negative", "Retry(Backoff: %v)", r.Backoff)
	check(r.Max >= 0, "must not be negative", "Retry(Max: %v)", r.Max)
	check(r.Max == 0 || r.Max >= r.Backoff, "must not be less than Backoff", "Retry(Backoff: %v, Max: %v)", r.Backoff, r.Max)
	check(r.Jitter >= 0 && r.Jitter <= 1, "must be from 0 to 1", "Retry(Jitter: %v)", r.Jitter)
	idle := r.Attempts < 2 && (r.Backoff != 0 || r.Max != 0 || r.Jitter != 0 || r.If != nil)
	check(!idle || r.Attempts < 0, "asks for no retry, yet says how; set Attempts to 2 or more", "Retry(Attempts: %d)", r.Attempts)
}

func (s *settings) checkRestart(check checker) {
	r := s.restart
	check(r.Backoff >= 0, "must not be negative", "Restart(Backoff: %v)", r.Backoff)
	check(r.Max >= 0, "must not be negative", "Restart(Max: %v)", r.Max)
	check(r.Max == 0 || r.Max >= r.Backoff, "must not be less than Backoff", "Restart(Backoff: %v, Max: %v)", r.Backoff, r.Max)
	check(r.Within >= 0, "must not be negative", "Restart(Within: %v)", r.Within)
}

func (s *settings) checkOuts(check checker) {
	names := map[string]bool{}
	for i, p := range s.Outs {
		if engine.IsNil(p) {
			check(false, "is nil", "Out(port %d)", i+1)
			continue
		}
		check(!names[p.Name()], "declared twice", "Out(%q)", p.Name())
		check(utf8.ValidString(p.Name()), "the name is not UTF-8", "Out(%q)", p.Name())
		names[p.Name()] = true
	}
}

// checkExpiry notes a flaw if the function of ExpiresAt can never be called with a command of the stage.
func (s *settings) checkExpiry(cmd reflect.Type) {
	of := s.expiring
	abstract := func(t reflect.Type) bool { return t.Kind() == reflect.Interface }
	switch {
	case of == nil, of == cmd, abstract(of) && abstract(cmd):
	case abstract(of) && cmd.Implements(of), abstract(cmd) && of.Implements(cmd):
	default:
		s.flaw("ExpiresAt", fmt.Sprintf("takes %v, and the stage's commands are %v", of, cmd))
	}
}

func (s *settings) flaw(option, problem string) {
	s.flaws = append(s.flaws, &Fault{s.Inbox.Name, option, problem})
}

// all returns all that is wrong with a stage of commands of a type.
func (s *settings) all(cmd reflect.Type) []error {
	all := append(slices.Clone(s.flaws), s.faults()...)
	if d := s.Inbox.Discipline; !canBe(cmd, queue.CommandType(d)) {
		all = append(all, &Fault{s.Inbox.Name, fmt.Sprintf("Discipline(%s)", d.Name()), fmt.Sprintf(
			"its function takes %v, which no command of type %v can be", queue.CommandType(d), cmd)})
	}
	return all
}

// canBe reports whether a value of one type can be one of the other at run time: that a type assertion from the first
// to the second may succeed. A nil type is any.
func canBe(value, other reflect.Type) bool {
	switch {
	case value == nil || other == nil || value == other:
		return true
	case value.Kind() != reflect.Interface:
		return other.Kind() == reflect.Interface && value.Implements(other)
	case other.Kind() != reflect.Interface:
		return other.Implements(value)
	default:
		return true // some type may implement both
	}
}
