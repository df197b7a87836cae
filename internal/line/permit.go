package line

// Permit makes a command of a stage with guards current: the counters of its
// method count it until the permit is given back. A permit has one owner at a
// time. The worker that is given the command has it first, and gives it back
// with the batch unless the handler begins; from then on the handler has it,
// also while it is suspended, and gives it back when it ends. So it does not
// matter in how many ways a batch or a handler may end. The zero Permit is
// none.
type Permit struct {
	valid  bool
	method string
	Fault  error // a guard did not return when it was asked about the command, which crashes with that
}

// Method returns the method of the command, as the queue knows it; "" if the
// command did not say.
func (p *Permit) Method() string { return p.method }
