package stage

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rate"
)

// Rate bounds how often handlers are called: the stage hands at most n commands
// to them in each period per, and up to burst at once after a time with less to
// do. In any time t it starts at most burst + n·t/per commands, and while
// commands wait and a worker is free it starts as many as that allows. The
// default is no bound. For calls of an API that allows 100 requests per minute,
// and ten at once:
//
//	stage.Func("geocode", geocode, stage.Rate(100, time.Minute, 10))
//
// It is a token bucket: it holds burst permits at the start, n more come evenly
// in each period, and each command that a worker takes costs one, a further try
// of [Retry] too. A command that ends without its handler being called, because
// it has expired or its caller's context has ended, costs none; nor does a
// suspended command that goes on. Commands wait for their permits in the queue
// and hold no worker. When the queue is full, [Overflow] applies as usual.
// Commands that are not worth a long wait end earlier: see [TTL],
// [WithDeadline], and [Stage.Ask] for those whose callers have gone. A drain is
// no faster than the rate; a hard stop does not wait for it.
//
// A worker takes one command at a time, unless the stage has a [Linger]. Then
// it takes as many as there are permits for, and waits up to the time of Linger
// for more of them; the commands of one batch count as started together. The
// rate bounds the whole stage; see [RateBy] for one for each key.
// Counts.RateWait of the snapshot says for how long commands have waited for
// it.
func Rate(n int, per time.Duration, burst int) Option {
	return once("Rate", func(s *settings) { s.engine.Inbox.Rate, s.rated = rate.Limit{N: n, Per: per, Burst: burst}, true })
}

// RateBy bounds how often handlers are called for commands of one key, as
// [Rate] does for all commands: n in each period per, and up to burst at once
// after a time with fewer. For a polite crawler:
//
//	stage.Func("fetch", fetch, stage.RateBy(Page.Host, 1, time.Second, 3))
//
// A key whose permits are used up delays no other: its commands wait in the
// queue and hold no worker, while commands of other keys are started. They do
// hold slots, so a key that gets more than its rate for long fills the stage,
// and [Overflow] applies to all; see [TTL]. Commands of one key start in the
// order of their arrival, and keys take turns. A worker takes one command at a
// time. With a Rate as well, both apply. C is the type of the stage's commands,
// or an interface that it implements.
//
// Key is called several times for each command, by any goroutine, perhaps many
// at once: it must be quick, always return the same for the same command, and
// call nothing of the pipeline. A command whose key panics, or is not equal to
// itself, such as a NaN, crashes in the stage at once, as in a [Keyed] stage.
// The key of such a stage is the only one that it can have a rate for: give
// both the same function.
//
// A key without commands is remembered until it has all its permits again, or
// until 65,536 keys without commands are remembered; then the key whose last
// command is the oldest is forgotten, and has all its permits when it comes
// again. So memory is bounded, whatever the keys. Queue.RateKeys of the
// snapshot is how many keys wait for their rate, and Counts.RateWait includes
// the time in which the stage had no other command to start.
//
// The stage has an order of its own, so it takes no [Discipline], no [Ordered]
// and no [Linger], and policies do not change its order.
func RateBy[C any, K comparable](key func(cmd C) K, n int, per time.Duration, burst int) Option {
	seed := maphash.MakeSeed()
	return once("RateBy", func(s *settings) {
		s.engine.Inbox.RateBy = rate.Limit{N: n, Per: per, Burst: burst}
		asked := askedOf(key)
		if s.ratedBy = asked; key == nil {
			return
		}
		s.engine.SharedBy = anyKey(key)
		s.engine.Inbox.RateKey = func(load any) uint64 {
			done := false
			defer asked.note(&done)
			k := hashOf(seed, key(link.Open[C](load)))
			done = true
			return k
		}
		asked.again = func(cmd any) {
			c, _ := cmd.(C)
			hashOf(seed, key(c))
		}
	})
}

// anyKey returns a function for the key of a command whose type is not known. A
// nil command of an interface type is none.
func anyKey[C any, K comparable](key func(cmd C) K) func(cmd any) any {
	return func(cmd any) any {
		c, _ := cmd.(C)
		return key(c)
	}
}

// hashOf returns a key as the inbox knows it. It panics if the key cannot be
// one: then its command has none.
func hashOf[K comparable](seed maphash.Seed, k K) uint64 {
	if k != k { //nolint:gocritic // a NaN, or a struct with one
		panic(fmt.Errorf("the key %v is not equal to itself", k))
	}
	if hash := uint64(maphash.Comparable(seed, k)); hash != line.NoKey {
		return hash
	}
	return line.NoKey + 1
}

// leastTimeout is less than any handler can meet: a time below it has no unit.
const leastTimeout = time.Microsecond

// leastGrace gives handlers that do watch their context a moment to return.
const leastGrace = 100 * time.Millisecond

// Timeout sets a time limit for each command: the context of its handler ends
// then, with the cause [ErrTimeout]. For a [behaviour.Batcher] the limit is for
// a batch. It is a microsecond at least. The default is no limit.
//
// Go cannot end a handler that does not watch its context. If a handler goes on
// past the limit and the stage's [Grace], the stage abandons its worker. The
// command has then crashed, with [ErrStuck] and the stack of where it is stuck,
// and is charged, retried or reported like any command that crashed. Another
// worker takes the place of the abandoned one, so the stage keeps its number of
// workers. What the handler returns later is ignored.
func Timeout(d time.Duration) Option {
	return once("Timeout", func(s *settings) { s.engine.Timeout = d })
}

// Grace sets how long a handler may go on, after its context has ended at its
// [Timeout], before the stage abandons its worker. The default is as long as
// the time limit itself, and at least 100 ms. A [behaviour.Emit] that still
// waits when the grace is over fails with [ErrTimeout], whatever context it was
// given.
//
// A grace is always the time from the end of a handler's context until its
// worker is abandoned. Here the context ends at the time limit; with the Grace
// of package pipeline it ends when the pipeline stops hard.
func Grace(d time.Duration) Option { return once("Grace", func(s *settings) { s.grace = d }) }

// givesUpAfter is after how long the stage gives up a handler that does not
// return; 0: never.
func (s *settings) givesUpAfter() time.Duration {
	if s.engine.Timeout <= 0 {
		return 0
	}
	return s.engine.Timeout + s.engine.Grace
}

func (s *settings) setGrace() {
	s.engine.Grace = s.grace
	if s.grace <= 0 {
		s.engine.Grace = max(s.engine.Timeout, leastGrace)
	}
}

// TTL sets a time to live: a command that has waited in the stage's queue for
// longer than d is shed, with [reason.Expired] and [ErrExpired], and its
// handler is not called. The default is to wait for ever; d is at most a day.
//
// The time starts when the command enters the queue of this stage, and starts
// again when it comes for another try. The pause before a try does not count. A
// command that was suspended has been started and does not expire. Of a command
// that a durable inlet of adapter/nats feeds, the time starts when it was
// published.
//
// A command that has expired does not wait for its turn, which may be far away:
// it is shed some 100 ms later at most, and at once if its slot is needed. In a
// queue of a million commands it may be a second. A command that a worker has
// taken in a batch is shed when the worker comes to it. So are commands that a
// crashed batch gave back, and in an [Ordered] stage commands that were tried
// before.
//
// See [ExpiresAt] for a time to live of each command, and [Stage.Ask] for
// commands that end with the contexts of their callers.
func TTL(d time.Duration) Option { return once("TTL", func(s *settings) { s.engine.Inbox.TTL = d }) }

// ExpiresAt sets a function that returns when a command expires: a command
// whose turn comes later is shed as with [TTL], but not before its turn comes.
// The zero time means never. To give a command one time to live for its whole
// way, give the option to each stage on that way. C is the type of the stage's
// commands, or an interface; commands of other types never expire.
//
//	stage.New("send", sender, stage.ExpiresAt(Mail.Deadline))
//
// The function is called once for each try, by several workers at once, and the
// clock is read for it. A panic of the function is a crash of the handler.
func ExpiresAt[C any](f func(cmd C) time.Time) Option {
	return once("ExpiresAt", func(s *settings) {
		s.expiring = reflect.TypeFor[C]()
		s.engine.ExpiresAt = nil
		if f != nil {
			s.engine.ExpiresAt = func(cmd any) time.Time {
				c, ok := cmd.(C)
				if !ok {
					return time.Time{}
				}
				return f(c)
			}
		}
	})
}
