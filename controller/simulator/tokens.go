package simulator

import (
	"time"

	"github.com/golda-dev/golda/controller"
)

// tokens admit commands at a rate, as the engine's do. The zero tokens admit
// all.
type tokens struct {
	rate  controller.Rate
	saved float64
	at    time.Duration // when saved was last brought up to date
}

// set changes the rate. What was saved stays, as far as the burst allows.
func (t *tokens) set(r controller.Rate, now time.Duration) {
	t.refill(now)
	if t.rate.PerSecond == 0 {
		t.saved = float64(r.Burst)
	}
	t.rate = r
}

func (t *tokens) refill(now time.Duration) {
	t.saved = min(t.saved+(now-t.at).Seconds()*t.rate.PerSecond, float64(max(t.rate.Burst, 1)))
	t.at = now
}

// take admits a command, or returns false.
func (t *tokens) take(now time.Duration) bool {
	if t.rate.PerSecond == 0 {
		return true
	}
	t.refill(now)
	if t.saved < 1 {
		return false
	}
	t.saved--
	return true
}
