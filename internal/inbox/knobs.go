package inbox

import (
	"math"
	"sync/atomic"
	"time"
)

// Knobs are what can be changed about an inbox while it is open.
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

// Knobs returns the knobs that an inbox starts with.
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

// Knobs returns the present knobs.
func (in *Inbox) Knobs() Knobs {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.knobs.Knobs
}

// Quality is what handlers are asked for. Any goroutine may read it.
func (in *Inbox) Quality() float64 { return math.Float64frombits(in.knobs.quality.Load()) }

// Adjust changes the knobs: change gets the present ones, under the lock. Adjust returns instances that are too many now;
// the caller stops them.
func (in *Inbox) Adjust(change func(*Knobs)) (surplus []any) {
	var fx effects
	in.mu.Lock()
	before := in.knobs.Knobs
	change(&in.knobs.Knobs)
	in.knobs.quality.Store(math.Float64bits(in.knobs.Quality))
	if before.Priority != in.knobs.Priority {
		in.voidTokens()
	}
	if in.knobs.Disabled {
		in.dismissWaiters(&fx)
	}
	in.changed(&fx)
	surplus = in.surplusInstances()
	in.unlock(&fx)
	return surplus
}
