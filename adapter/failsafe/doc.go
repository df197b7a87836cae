// Package failsafe protects the functions of stages with the policies of
// github.com/failsafe-go/failsafe-go: circuit breaker, bulkhead, adaptive
// limiter, hedge, retry with a budget, time limit, rate limit.
//
//	breaker := circuitbreaker.NewBuilder[Quote]().WithFailureThreshold(5).WithDelay(10 * time.Second).Build()
//	quotes := failsafe.Wrap(fetchQuote, breaker)   // func(context.Context, Order) (Quote, error)
//	price := stage.Map("price", quotes.Call, stage.Blocking())
//
// As with failsafe-go the first policy is the outermost: Wrap(f, retry,
// breaker) tries again what the breaker has let through or refused. A policy
// may be part of several wrappers; then they share its state.
//
// Rates are fractions, from 0 to 1: WithFailureRateThreshold(0.5, 20,
// time.Minute) opens a breaker when half of at least 20 calls of a minute have
// failed, and WithMaxRate(0.1) of a budget lets a tenth of the calls be retries
// or hedges. A failure rate above 1, such as 50 for percent, panics; a
// WithMaxRate above 1 is no limit.
//
// # Refusals
//
// A call that a policy refuses fails with a [*RefusedError]. It wraps the error
// of the policy, so errors.Is tells them apart, and has a reason, by
// which [Guard.Counts] counts:
//
//	BreakerOpen    circuitbreaker.ErrOpen        overload until the breaker is half-open
//	BulkheadFull   bulkhead.ErrFull              overload
//	RateLimited    ratelimiter.ErrExceeded       overload
//	BudgetSpent    budget.ErrExceeded            overload
//	TimedOut       timeout.ErrExceeded           context.DeadlineExceeded too
//	reason.Full    adaptivelimiter.ErrExceeded   overload, as of a full stage
//
// stage.Overloaded recognises the refusals that mean overload, with the time
// that an open breaker stays open as hint. So package stagehttp answers 503
// with Retry-After, and
//
//	stage.Retry(stage.RetryPolicy{Attempts: 10, Backoff: time.Second})
//
// tries a refused command again when the breaker lets calls through, but after
// a minute at most, or the policy's Max. A refusal uses up no attempt, so
// commands outlast an outage, however long it is; see [stage.RetryPolicy] for
// the limits that end them. Commands that wait so hold no worker, while the
// pause of a failsafe-go retry and the wait of a bulkhead do. BudgetSpent does
// use up an attempt: the call failed.
//
// # Contexts
//
// The function gets the handler's context, or one that is derived from it: each
// hedge has its own, which ends when another has won. When the handler's
// context ends, the call ends when its tries do. A breaker counts the errors of
// callers that went away unless it is told not to, with HandleIf.
//
// # Crashes
//
// A panic of the function ends the call, whatever the policies say. The
// policies release what they hold and count a failure; then Call panics with a
// [*PanicError], and the stage handles the crash as always. The same holds for
// runtime.Goexit.
package failsafe
