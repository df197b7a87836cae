package inbox

import (
	"math"
	"sync/atomic"
	"time"
)

// Knobs are what may be changed about an inbox while it is open.
type Knobs struct {
	Capacity  int
	Batch     int
	Linger    time.Duration
	Instances int
	Priority  int
	Disabled  bool
	Paused    bool
	Quality   float64
}

// knobs are the knobs with what is derived from them.
type knobs struct {
	Knobs
	quality *atomic.Uint64 // Quality, to be read by handlers
}

// Knobs is how an inbox is made.
func (cfg Config) Knobs() Knobs {
	k := Knobs{Capacity: cfg.Capacity, Batch: cfg.Batch, Linger: cfg.Linger, Instances: cfg.Instances, Quality: 1}
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

// Knobs returns how the knobs are turned.
func (in *Inbox) Knobs() Knobs {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.knobs.Knobs
}

// Quality is what handlers are asked for. Anybody may ask.
func (in *Inbox) Quality() float64 { return math.Float64frombits(in.knobs.quality.Load()) }

// Adjust turns the knobs: change is given the present ones, and all that follows from
// the new ones is seen to. It returns instances that are one too many now, to be
// stopped.
func (in *Inbox) Adjust(change func(*Knobs)) (surplus []any) {
	in.mu.Lock()
	before := in.knobs.Knobs
	change(&in.knobs.Knobs)
	in.knobs.quality.Store(math.Float64bits(in.knobs.Quality))
	if before.Priority != in.knobs.Priority {
		in.voidTokens()
	}
	if in.knobs.Disabled {
		in.dismissWaiters()
	}
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	surplus = in.surplus()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
	return surplus
}

// surplus takes instances off the idle instances that are beyond what there should be.
func (in *Inbox) surplus() []any {
	n := min(max(in.made-in.knobs.Instances, 0), len(in.idleInstances))
	if n == 0 {
		return nil
	}
	left := len(in.idleInstances) - n
	gone := append([]any(nil), in.idleInstances[left:]...)
	clear(in.idleInstances[left:])
	in.idleInstances, in.made = in.idleInstances[:left], in.made-n
	return gone
}

// TakeIdleInstances takes all instances that nobody uses, to be stopped.
func (in *Inbox) TakeIdleInstances() []any {
	in.mu.Lock()
	defer in.mu.Unlock()
	gone := in.idleInstances
	in.idleInstances, in.made = nil, in.made-len(gone)
	return gone
}
