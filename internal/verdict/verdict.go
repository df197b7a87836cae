package verdict

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Undecodable is the reason of a dead letter whose message could not be
// decoded.
const Undecodable reason.Reason = "undecodable"

// Act is what to do with a message.
type Act uint8

// What to do with a message.
const (
	Ack      Act = iota // it is done
	GiveBack            // deliver it again
	Bury                // it is a dead letter
)

// Verdict says what to do with the message of a command that has ended.
type Verdict struct {
	Act    Act
	Delay  time.Duration // of GiveBack
	Free   bool          // of GiveBack: the command was not tried, so the delivery does not count
	Reason reason.Reason // of Bury
}

// Of returns what to do with a message that was delivered n times, after its
// command has ended with err. A panic of the user's function p.If is logged,
// and the command is not tried again. So it is if it was refused and asks for a
// longer pause than p.Max.
func Of(log *slog.Logger, p stage.RetryPolicy, n int, err error) (v Verdict) {
	defer func() {
		if value := recover(); value != nil {
			log.Error("the function Retry.If has panicked", "value", value)
			v = Verdict{Act: Bury, Reason: reason.Error}
		}
	}()
	switch {
	case err == nil:
		return Verdict{Act: Ack}
	case errors.Is(err, stage.ErrStopped): // the next process does it
		return Verdict{Act: GiveBack}
	}
	again, why := true, reason.Error
	switch {
	case stage.Crashed(err):
		again, why = false, reason.Crash
	case errors.Is(err, stage.ErrExpired):
		again, why = false, reason.Expired
	}
	if p.If != nil {
		again = p.If(err)
	}
	overload, overloaded := stage.Overloaded(err)
	refused := overloaded && !overload.Tried && !stage.Crashed(err)
	if !again || n >= p.Attempts && !refused {
		return Verdict{Act: Bury, Reason: why}
	}
	asked, cut := backoff.Heed(overload.RetryAfter, p.Max)
	if cut && overload.RetryAfter > time.Second { // a second may be the default of package stage
		log.Warn("a message is delivered again before the time that the error of its command asks for; see Retry.Max",
			"asked", overload.RetryAfter, "pause", asked, "reason", Text(err))
	}
	return Verdict{Act: GiveBack, Delay: max(Pause(p, n), asked), Free: refused}
}

// Pause returns the pause after the n-th delivery.
func Pause(p stage.RetryPolicy, n int) time.Duration {
	return max(backoff.Pause(p.Backoff, p.Max, n, p.Jitter*(2*rand.Float64()-1)), 0)
}

// The defaults of a policy, and the longest error of a letter in bytes.
const (
	defaultAttempts = 10
	defaultBackoff  = time.Second
	longestError    = 1 << 10
)

// Filled returns a policy with its defaults: ten deliveries, and pauses from a
// second up to most.
func Filled(p stage.RetryPolicy, most time.Duration) stage.RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = defaultAttempts
	}
	if p.Max == 0 {
		p.Max = max(most, p.Backoff)
	}
	if p.Backoff == 0 {
		p.Backoff = min(defaultBackoff, p.Max)
	}
	return p
}

// Check calls fault for all that may be wrong with a policy, with whether it
// is.
func Check(p stage.RetryPolicy, fault func(wrong bool, format string, args ...any)) {
	fault(p.Attempts < 0, "Retry.Attempts is %d; use 1 for one delivery, 0 for %d", p.Attempts, defaultAttempts)
	fault(p.Backoff < 0, "Retry.Backoff is %v", p.Backoff)
	fault(p.Max < 0 || p.Max != 0 && p.Max < p.Backoff, "Retry.Max is %v, and Backoff %v", p.Max, p.Backoff)
	fault(!(p.Jitter >= 0 && p.Jitter <= 1), "Retry.Jitter is %v, and must be from 0 to 1", p.Jitter)
	fault(p.Budget != 0, "Retry.Budget is %v; there is none for messages", p.Budget)
}

// Text returns the text of an error in one line of at most some 1,024 bytes.
// The methods of an error are user code.
func Text(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			text = "an error whose method Error panicked"
		}
	}()
	text = strings.ToValidUTF8(strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error()), "?")
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	return text
}
