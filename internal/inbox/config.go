package inbox

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/internal/streak"
	"github.com/golda-dev/golda/stage/queue"
)

// Why a command is refused, or ended without an answer.
var (
	ErrFull = errors.New("stage: full")
	// ErrFullLoop is the ErrFull of a handler that must not wait for a stage.
	ErrFullLoop   = fmt.Errorf("%w", ErrFull)
	ErrClosed     = errors.New("stage: closed")
	ErrDraining   = fmt.Errorf("%w: draining", ErrClosed)
	ErrNotRunning = errors.New("stage: not running")
	ErrShed       = errors.New("stage: command dropped to make room")
	// ErrShedNewest is the ErrShed of a command that was dropped on arrival.
	ErrShedNewest = fmt.Errorf("%w", ErrShed)
	ErrStopped    = errors.New("stage: stopped before the command was done")
	ErrDisabled   = errors.New("stage: disabled")
	ErrExpired    = errors.New("stage: command expired in the queue")
	ErrSelfCall   = errors.New("stage: a handler calls the stage for its own key, and would wait for itself")
	ErrElsewhere  = errors.New("stage: it runs in another process")
)

// FullError is an ErrFull that says for how long the command would wait, if it
// had found a slot; 0 if that is not known.
type FullError struct{ Wait time.Duration }

// Error returns the text of ErrFull.
func (*FullError) Error() string { return ErrFull.Error() }

// Unwrap returns ErrFull.
func (*FullError) Unwrap() error { return ErrFull }

// Overflow says what a full inbox does with one more command; see package
// stage/overflow.
type Overflow uint8

// The four choices; package stage/overflow documents them.
const (
	Wait Overflow = iota
	Reject
	DropNewest
	DropOldest
)

// Config is what a stage asks of its inbox. It has been checked.
type Config struct {
	Name     string
	Capacity int
	Batch    int
	Linger   time.Duration
	// TTL is how long a command may wait in the queue; 0 is for ever.
	TTL      time.Duration
	Overflow Overflow
	// Parks has the key of a command that leaves a letter parked, with Key; see
	// [Park].
	Parks bool
	Rate  rate.Limit
	// RateBy bounds how many commands of each key are given out. Without Key,
	// RateKey says what the keys are; it calls user code.
	RateBy  rate.Limit
	RateKey func(load any) uint64
	Retry   Retry
	// Instances is how many workers may be here at once.
	Instances int
	// Share makes the stage a fair one, which keys share by their weights: it
	// returns the key of a command and, as the order, its weight. It calls user
	// code. AtOnce bounds the handlers of one key; 0: any number.
	Share  func(load any) line.Rank
	AtOnce int
	// KeyCapacity is how many commands of one key may hold slots, with Key or
	// Share; or [line.QuarterOfCapacity]; 0: any number.
	KeyCapacity int
	// Discipline is the order of the queue; nil is first in, first out.
	Discipline queue.Discipline
	// Key makes the stage a keyed one: commands of one key are handled one
	// after the other. It is given the command as its envelope has it, and
	// calls user code.
	Key func(load any) uint64
	// Guards hold commands back; nil: there are none.
	Guards *line.Guards
	// Ordered makes the results of the commands leave in the order in which the
	// commands arrived.
	Ordered bool
	// Holder is the behaviour if its handlers wait for one another; otherwise
	// nil.
	Holder link.Holder
	// Pauses says how long the stage pauses when its workers crash one after
	// another; nil: not at all.
	Pauses *Pauses
	// StreakEnds is how long after a crash the next one begins a new streak.
	StreakEnds time.Duration
	// Together says that commands are handled together: a worker takes as many
	// as there are, however long the last ones took.
	Together bool
	// Elsewhere is why commands are refused for good, nil if they are not: the
	// stage runs in another process, which takes none.
	Elsewhere error

	suspends bool // the handlers may suspend; set before the inbox is opened
}

// Pauses are the pauses of a stage whose workers crash one after another.
type Pauses = streak.Pauses

// CrashStreak describes a streak of crashes, beside its length.
type CrashStreak = streak.Facts

// Retry says how often and when a command is tried again; see stage.
type Retry struct {
	Attempts     int
	Backoff, Max time.Duration
	Jitter       float64
	Budget       float64 // 0: any number of retries; otherwise at least a millionth
	// LongestAsked is the longest pause that another program may ask for.
	LongestAsked time.Duration
}

// Knobs are the settings that can be changed while an inbox is open.
type Knobs struct {
	Capacity  int
	Batch     int
	Linger    time.Duration
	Instances int
	Priority  int
	Disabled  bool
	Paused    bool
	// Sojourn is how long a command may wait in the queue, besides the TTL, in
	// microseconds; 0 is for ever. It has the room that alignment leaves.
	Sojourn uint32
	Quality float64
}

// knobs are the knobs with the values derived from them.
type knobs struct {
	Knobs
	quality *atomic.Uint64 // Quality, to be read by handlers
}

// Knobs returns the knobs that an inbox starts with.
func (cfg Config) Knobs() Knobs {
	k := Knobs{
		Capacity: cfg.Capacity, Batch: cfg.Batch, Linger: cfg.Linger, Instances: cfg.Instances, Quality: 1,
		Disabled: cfg.Elsewhere != nil,
	}
	if k.Instances == 0 {
		k.Instances = math.MaxInt
	}
	return k
}

func (cfg Config) knobs() knobs {
	k := knobs{Knobs: cfg.Knobs(), quality: new(atomic.Uint64)}
	k.quality.Store(math.Float64bits(1))
	return k
}

// quantum is how long a batch should take: long enough that the lock and the
// clock cost nothing, short enough that no worker hoards commands that others
// could handle.
const quantum = 100 * time.Microsecond

// Summer returns the behaviour if letters of the stage may have results in
// place of commands; otherwise nil.
func (c *Config) Summer() link.Summer {
	s, _ := c.Holder.(link.Summer)
	return s
}

// Waits reports whether the overflow rule is [Wait].
func (c *Config) Waits() bool { return c.Overflow == Wait }

// Keyed reports whether the stage is a keyed one.
func (c *Config) Keyed() bool { return c.Key != nil }

// HoldsLanes reports whether the commands of the stage hold the lanes of their
// keys, because handlers may suspend.
func (c *Config) HoldsLanes() bool { return (c.Keyed() || c.AtOnce > 0) && c.suspends }

// TakesBack reports whether a worker gives back the rest of its batch with a
// command that is tried again later: later commands of the same key may be in
// it.
func (c *Config) TakesBack() bool { return c.Keyed() && !c.suspends }

// limit is the rate of the whole inbox.
type limit struct {
	rate.Bucket
	rate.Delay
}

// newLimit returns a limit whose bucket is full, nil if there is no bound.
func newLimit(r rate.Limit) *limit {
	if b := rate.New(r); b != nil {
		return &limit{Bucket: *b}
	}
	return nil
}
