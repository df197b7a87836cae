package queue

// FIFO returns the oldest command. It is the order of every stage without
// another discipline. Of all orders that do not depend on the commands, it has
// the smallest variance of waiting times: Kingman, "The Effect of Queue
// Discipline on Waiting Time Variance" (Proceedings of the Cambridge
// Philosophical Society 58:1, 1962).
type FIFO struct{}

// Name returns "fifo".
func (FIFO) Name() string { return "fifo" }

// Check returns nil: there are no parameters.
func (FIFO) Check() error { return nil }

func (FIFO) plan() plan { return plan{build: inOrder} }
