package queue

// LIFO gives out the command that came last, which is likely to be still in the cache,
// and to be still wanted. Commands wait no longer than with [FIFO] on average, but of all
// orders that do not look at what a command is, it is the one in which waiting times differ
// most: Vasicek, "An Inequality for the Variance of Waiting Time under a General
// Queuing Discipline" (Operations Research 25:5, 1977). As long as commands come faster
// than they are done, those at the bottom stay there.
//
// [AdaptiveLIFO] is fair until there is too much to do.
type LIFO struct{}

// Name is "lifo".
func (LIFO) Name() string { return "lifo" }

// Check finds nothing: there are no parameters.
func (LIFO) Check() error { return nil }

func (LIFO) plan() plan { return plan{build: turning, above: 0} }
