package stage

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/inbox"
)

const (
	defaultRetryBackoff = time.Millisecond // the pause before the second try of a command
	defaultRetryMax     = time.Minute      // the longest pause between two tries
)

// RetryPolicy says whether a command is tried again after a try that did not
// succeed. The zero policy never tries again.
//
// A command that waits for its next try holds no worker. It keeps its slot and
// counts against the stage's [Capacity]: a stage that is full of retries waits,
// refuses or drops at its entry as its [Overflow] rule says, and no retry is
// ever refused. (DropOldest drops no command that waits for its next try.)
//
// When its time has come, the command goes behind the commands that are queued,
// and behind those that wait for a slot: it gives its own slot to the first of
// them. So commands that fail again and again keep no other command from its
// first try. At most 1024 commands of a stage, or its capacity if that is more,
// have given up their slots at once; beyond that they keep them.
//
// A refusal is not a try: an error for which [Overloaded] reports an [Overload]
// that is not Tried, such as the error of an open breaker, of a full queue, or
// of a rate limit. It uses up no attempt and no part of the Budget, and the
// pause after it is at least as long as the Overload asks for, up to Max. So
// commands outlast an outage, while the stage fills and slows down the stages
// before it. A command that is refused for ever ends by its [TTL], which counts
// all the time of waiting, by the end of its caller's context, by If, or by a
// hard stop. A soft stop waits for it as for any other command: until it has
// ended, or until the context of Pipeline.Stop ends, or the drain timeout of
// Pipeline.Run; then it is dead-lettered with [ErrStopped].
type RetryPolicy struct {
	// Attempts is the most tries of one command, the first included. More than
	// 65,535 means any number. 0 and 1 mean no retry, not even of a refused
	// command.
	Attempts int
	// Backoff is the first pause, before the second try; it doubles with each
	// further one, up to Max. 0 means 1 ms, or Max if that is shorter.
	Backoff time.Duration
	// Max is the longest pause. 0 means a minute, or 10 ms if Backoff is 0 as
	// well: a policy that asks for no pauses gets short ones. Of a pause that
	// an [Overload] asks for, 0 means a minute, or Backoff if that is longer. A
	// pause that is cut is logged.
	Max time.Duration
	// Jitter is the part of the pause, from 0 to 1, by which chance may make it
	// longer or shorter.
	Jitter float64
	// Budget bounds the retries of all commands of the stage together, as a
	// share of the commands that have ended here: 0.2 allows one retry for five
	// of them. A reserve of ten retries comes on top; it may be spent at once,
	// and fills up again with later commands. So a service that is down is not
	// called several times as often as usual. When the budget is spent, a
	// command whose try fails ends at once. Its error wraps [ErrRetryBudget]
	// and the error of the try, [Overloaded] reports it with
	// [reason.RetryBudget], and Counts.RetriesRefused of the snapshot counts
	// it. 0 means no bound; otherwise Budget is from 0.001 to 1.
	Budget float64
	// If chooses the errors that are worth another try: the reason of an Error
	// outcome or a [*CrashError]. nil means all. Several workers may call it at
	// once.
	If func(error) bool
}

// Retry sets when commands are tried again. By default they are not.
func Retry(p RetryPolicy) Option { return once("Retry", func(s *settings) { s.retry = p }) }

func (s *settings) setRetry() {
	r := s.retry
	switch {
	case r.Max == 0 && r.Backoff == 0:
		r.Max = 10 * defaultRetryBackoff
	case r.Max == 0:
		r.Max = max(defaultRetryMax, r.Backoff)
	}
	if r.Backoff == 0 {
		r.Backoff = min(defaultRetryBackoff, r.Max)
	}
	longest := s.retry.Max
	if longest == 0 {
		longest = max(backoff.LongestAsked, r.Max)
	}
	s.engine.Inbox.Retry = inbox.Retry{
		Attempts: r.Attempts, Backoff: r.Backoff, Max: r.Max, Jitter: r.Jitter, Budget: r.Budget, LongestAsked: longest,
	}
	s.engine.RetryIf, s.engine.Refusal = r.If, refusal
}

// RestartPolicy says what a stage does when its workers crash one after
// another.
//
// A crash of a handler ends the command that it is charged to, and nothing
// else: bad commands end no stage, however many of them come. A streak of
// crashes, without a completed command between them, only slows the stage down.
// The first ones, as many as there are workers, are each answered by a fresh
// instance at once, since each worker may just have met one bad command. Each
// further crash is followed by a pause, twice as long as the one before.
// Further crashes of the same command do not count. The streak ends with the
// first command that is completed. Workers.CrashStreak of the [Snapshot] is its
// length, and the log has a line whenever that has doubled.
//
// A worker that cannot start, because the factory or Version panics or Start
// fails, is charged to no command. It is tried again after pauses that grow in
// the same way. After the limit the stage gives up: it fails towards the
// pipeline, with a [*BrokenError]. The instance of a key is no part of a
// worker: a failure while the instance is made is a crash of the command; see
// [Keyed].
type RestartPolicy struct {
	// Limit is how many times in a row workers may fail, beyond one time for
	// each, before the stage gives up. 0 means that workers may fail to start
	// for half a minute, and 15 times at least, and that any number of handlers
	// may crash. A Limit above 0 is one for both together, however short the
	// time. Less than 0 means none.
	Limit int
	// Backoff is the first pause; it doubles with each further one, up to Max.
	// 0 means 1 ms.
	Backoff time.Duration
	// Max is the longest pause. 0 means 1 s between tries to start. After
	// crashes of handlers it means pauses that delay no waiting command by more
	// than 100 ms, all of them together, however many commands before it crash.
	Max time.Duration
	// Within is the longest time between two crashes that are counted together.
	// A crash that comes later starts a new count. 0 means a minute.
	Within time.Duration
}

// Restart sets what the stage does when its workers crash one after another.
func Restart(p RestartPolicy) Option { return once("Restart", func(s *settings) { s.restart = p }) }

// The defaults of a RestartPolicy.
const (
	defaultStarts     = 15
	defaultStartsFor  = 30 * time.Second
	defaultStartPause = time.Second
	defaultDelay      = 100 * time.Millisecond
)

// defaultPauses is one value for all stages without Restart.
var defaultPauses = RestartPolicy{}.pauses()

func (s *settings) setRestart() {
	p := s.restart
	s.engine.Endures, s.engine.EnduresStart = p.limits()
	if p.Limit == 0 {
		s.engine.StartsFor = defaultStartsFor
	}
	s.engine.Inbox.StreakEnds = p.Within
	if p.Within == 0 {
		s.engine.Inbox.StreakEnds = time.Minute
	}
	s.engine.Inbox.Pauses = defaultPauses
	if p != (RestartPolicy{}) {
		s.engine.Inbox.Pauses = p.pauses()
	}
}

// limits returns how many crashes in a row, and how many failures to start, the
// stage endures beyond one for each worker.
func (p RestartPolicy) limits() (crashes, starts int) {
	if p.Limit == 0 {
		return math.MaxInt32, defaultStarts
	}
	limit := min(max(p.Limit, 0), math.MaxInt32)
	return limit, limit
}

func (p RestartPolicy) pauses() *inbox.Pauses {
	first, most, startMost, delay := p.Backoff, p.Max, p.Max, time.Duration(0)
	if first == 0 {
		first = time.Millisecond
	}
	if p.Max == 0 {
		most, startMost, delay = max(defaultDelay, first), max(defaultStartPause, first), defaultDelay
	}
	return &inbox.Pauses{
		Crash: func(beyond int) time.Duration { return pause(first, most, beyond) },
		Start: func(beyond int) time.Duration { return pause(first, startMost, beyond) },
		Delay: delay,
	}
}

// pause returns how long to wait before a restart. Beyond is the number of
// failures after the first ones, which are answered at once. A fifth of the
// pause is random, so that stages that broke together do not restart together.
func pause(first, most time.Duration, beyond int) time.Duration {
	return backoff.Pause(first, most, beyond, -0.2*rand.Float64())
}
