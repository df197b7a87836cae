package queue

// FIFO gives out the command that came first: the order of every stage that is
// not given another. Of all orders that do not look at what a command is, it is the one
// in which waiting times differ least: Kingman, "The Effect of Queue Discipline on Waiting
// Time Variance" (Proceedings of the Cambridge Philosophical Society 58:1, 1962).
type FIFO struct{}

// Name is "fifo".
func (FIFO) Name() string { return "fifo" }

// Check finds nothing: there are no parameters.
func (FIFO) Check() error { return nil }

func (FIFO) plan() plan { return plan{build: inOrder} }
