package queue

// LIFO returns the newest command, which is likely to be still in the cache,
// and to be still wanted. On average commands wait no longer than with [FIFO].
// But of all orders that do not depend on the commands, LIFO has the largest
// variance of waiting times: Vasicek, "An Inequality for the Variance of
// Waiting Time under a General Queuing Discipline" (Operations Research 25:5,
// 1977). As long as commands arrive faster than they are processed, those at
// the bottom stay there.
//
// [AdaptiveLIFO] is fair until the stage is overloaded.
type LIFO struct{}

// Name returns "lifo".
func (LIFO) Name() string { return "lifo" }

// Check returns nil: there are no parameters.
func (LIFO) Check() error { return nil }

func (LIFO) plan() plan { return plan{build: turning, above: 0} }
