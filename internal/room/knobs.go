package room

import (
	"math"
	"sync/atomic"
	"time"
)

// Knobs are what may be changed about a room while it is open.
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

// Knobs is how a room is made.
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
func (r *Room) Knobs() Knobs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.knobs.Knobs
}

// Quality is what handlers are asked for. Anybody may ask.
func (r *Room) Quality() float64 { return math.Float64frombits(r.knobs.quality.Load()) }

// Adjust turns the knobs: change is given the present ones, and all that follows from
// the new ones is seen to. It returns instances that are one too many now, to be
// stopped.
func (r *Room) Adjust(change func(*Knobs)) (surplus []any) {
	r.mu.Lock()
	before := r.knobs.Knobs
	change(&r.knobs.Knobs)
	r.knobs.quality.Store(math.Float64bits(r.knobs.Quality))
	if before.Priority != r.knobs.Priority {
		r.void()
	}
	if r.knobs.Disabled {
		r.dismissWaiters()
	}
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	surplus = r.surplus()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
	return surplus
}

// surplus takes instances off the shelf that are beyond what there should be.
func (r *Room) surplus() []any {
	n := min(max(r.made-r.knobs.Instances, 0), len(r.shelf))
	if n == 0 {
		return nil
	}
	left := len(r.shelf) - n
	gone := append([]any(nil), r.shelf[left:]...)
	clear(r.shelf[left:])
	r.shelf, r.made = r.shelf[:left], r.made-n
	return gone
}

// Unshelve takes all instances that nobody uses, to be stopped.
func (r *Room) Unshelve() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.shelf
	r.shelf, r.made = nil, r.made-len(gone)
	return gone
}
