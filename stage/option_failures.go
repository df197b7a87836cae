package stage

import (
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/inbox"
)

const (
	defaultRetryBackoff = time.Millisecond // the pause before the second try of a command
	defaultRetryMax     = time.Minute      // the longest pause between two tries
)

// RetryPolicy says whether a command is tried again after a try that did not succeed. The zero policy never tries again.
//
// A command that waits for its next try holds no worker. It keeps its slot and counts against the stage's [Capacity]: a
// stage that is full of retries waits, refuses or drops at its entry as its [Overflow] rule says, and no retry is ever
// refused. ([DropOldest] drops no command that waits for its next try.)
//
// When its time has come, the command goes behind the commands that are queued, and behind those that wait for a slot: it
// gives its own slot to the first of them. So commands that fail again and again keep no other command from its first try.
// At most 1024 commands of a stage, or its capacity if that is more, have given up their slots at once; beyond that they
// keep them.
type RetryPolicy struct {
	// Attempts is the most tries of one command, the first included. More than 65,535 means any number. 0 and 1 mean no
	// retry.
	Attempts int
	// Backoff is the first pause, before the second try; it doubles with each further one, up to Max. 0 means 1 ms, or Max
	// if that is shorter.
	Backoff time.Duration
	// Max is the longest pause. 0 means a minute, or 10 ms if Backoff is 0 as well: a policy that asks for no pauses gets
	// short ones.
	Max time.Duration
	// Jitter is the part of the pause, from 0 to 1, by which chance may make it longer or shorter.
	Jitter float64
	// Budget bounds the retries of all commands of the stage together, as a share of the commands that have ended here: 0.2
	// allows one retry for five of them. A reserve of ten retries comes on top; it may be spent at once, and fills up again with
	// later commands. So a service that is down is not called several times as often as usual. When the budget is spent, a
	// command whose try fails ends at once. Its error wraps [ErrRetryBudget] and the error of the try, [Overloaded] reports it
	// with [reason.RetryBudget], and Snapshot.RetriesRefused counts it. 0 means no bound; otherwise Budget is from 0.001 to 1.
	Budget float64
	// If chooses the errors that are worth another try: the reason of an Error outcome or a [*CrashError]. nil means all.
	// Several workers may call it at once.
	If func(error) bool
}

// Retry sets when commands are tried again. By default they are not.
func Retry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

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
	s.Inbox.Retry = inbox.Retry{Attempts: r.Attempts, Backoff: r.Backoff, Max: r.Max, Jitter: r.Jitter, Budget: r.Budget}
	s.RetryIf = r.If
}

// RestartPolicy says what a stage does when its workers keep crashing.
//
// It counts the crashes that follow one another without a completed command between them; crashes of the same command count
// once. The first crashes, as many as there are workers, are each answered by a fresh instance at once, since each worker
// may just have met one bad command. Each further crash makes the next worker wait, twice as long as the one before. After
// Limit of those the stage gives up: it fails towards the pipeline, with a [*BrokenError].
type RestartPolicy struct {
	// Limit is how many crashes a stage endures beyond one for each worker. 0 means 15, and less than 0 means none.
	Limit int
	// Backoff is the first pause; it doubles with each further one, up to Max. 0 means 1 ms.
	Backoff time.Duration
	// Max is the longest pause. 0 means 1 s.
	Max time.Duration
	// Within is the longest time between two crashes that are counted together. A crash that comes later starts a new
	// count. 0 means a minute.
	Within time.Duration
}

// Restart sets what the stage does when its workers keep crashing.
func Restart(p RestartPolicy) Option { return func(s *settings) { s.restart = p } }

// defaultPause is one value for all stages without Restart: a method value of their own would cost each an allocation.
var defaultPause = RestartPolicy{}.orDefault().pause

func (s *settings) setRestart() {
	p := s.restart.orDefault()
	s.Endures, s.Inbox.StreakEnds, s.Inbox.Rest = p.Limit, p.Within, defaultPause
	if s.restart != (RestartPolicy{}) {
		s.Inbox.Rest = p.pause
	}
}

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

// pause returns how long a worker waits that follows a number of crashes beyond those that are answered at once. A fifth of
// it is random, so that stages that broke together do not come back together.
func (p RestartPolicy) pause(beyond int) time.Duration {
	return backoff.Pause(p.Backoff, p.Max, beyond, -0.2*rand.Float64())
}
