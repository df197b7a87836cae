package pool

import "slices"

// Holding is what a worker has of the instances of the inbox where it is. The
// lock of the inbox guards all but Instance and Surplus, which are the
// worker's.
type Holding struct {
	// Instance is what the worker handles commands with. A turn at a shared
	// inbox lends one, or nil: then the worker must make one. It is the worker's
	// for as long as it is at the inbox, and is returned to the idle instances.
	Instance any
	// Surplus is an instance that the worker must stop.
	Surplus any

	inUse bool   // counts in the inbox's busy
	owns  bool   // counts in the inbox's made
	mark  uint32 // the inbox's when the worker came; see marked
}

// InUse reports whether the worker counts as being at the inbox.
func (h *Holding) InUse() bool { return h.inUse }

// Owns reports whether the worker has an instance, or the right to make one.
func (h *Holding) Owns() bool { return h.owns }

// Succeed takes the place of a worker at the inbox.
func (h *Holding) Succeed(from *Holding) {
	h.inUse, h.mark, from.inUse = from.inUse, from.mark, false
}

// Instances are the values that handle commands, with the state of user code in
// them: at most as many as the knob says. made = out + len(idle) + claims of
// workers that hold none at the moment.
type Instances struct {
	busy   int   // workers that are here, each with an instance
	made   int   // instances that there are, claims included
	idle   []any // instances that no worker uses
	marked marked
}

// marked counts the workers that may still hold commands sent before the mark.
// A worker gets the present mark with its first batch, and is uncounted when it
// has handed over every command of its batches, also if it crashes, is
// abandoned or is replaced. A worker that carries commands for longer gets the
// new mark as soon as none of them is for an inbox that the mark is about. So
// when left is 0, no command that a handler sent before the mark is on its way to these
// inboxes, except commands of suspended handlers and results of an ordered
// inbox.
//
// Invariant: left is how many of busy have another mark.
type marked struct {
	mark uint32
	left int32
}

// Busy returns how many workers are here, each with an instance.
func (x *Instances) Busy() int { return x.busy }

// Unmarked returns how many of the workers that were here when the inbox was
// marked last may still have commands from before.
func (x *Instances) Unmarked() int { return int(x.marked.left) }

// Equip gives a worker an instance, or the right to make one, and reports
// whether it must make one. If that is false and the worker has none, there is
// none to be had. Most is how many there may be.
func (x *Instances) Equip(h *Holding, most int) (make bool) {
	switch {
	case h.owns:
		return h.Instance == nil
	case len(x.idle) > 0:
		last := len(x.idle) - 1
		h.Instance, h.owns = x.idle[last], true
		x.idle[last] = nil
		x.idle = x.idle[:last]
		return false
	case x.made < most:
		x.made++
		h.owns = true
		return true
	}
	return false
}

// Available reports whether a worker without an instance will get one.
func (x *Instances) Available(most int) bool {
	return len(x.idle) > 0 || x.made < most
}

// TakeBack takes a worker's instance back, if the worker has one that is
// fit.
func (x *Instances) TakeBack(h *Holding, most int) {
	if !h.owns {
		return
	}
	h.owns = false
	switch inst := h.Instance; {
	case inst == nil: // it was never made, or crashed
		x.made--
	case x.made > most:
		x.made--
		h.Surplus = inst
	default:
		x.idle = append(x.idle, inst)
	}
	h.Instance = nil
}

// Surplus removes the idle instances that are more than there should
// be.
func (x *Instances) Surplus(most int) []any {
	n := min(max(x.made-most, 0), len(x.idle))
	if n == 0 {
		return nil
	}
	left := len(x.idle) - n
	gone := append([]any(nil), x.idle[left:]...)
	clear(x.idle[left:])
	x.idle, x.made = x.idle[:left], x.made-n
	return gone
}

// TakeIdle removes all idle instances.
func (x *Instances) TakeIdle() []any {
	gone := x.idle
	x.idle, x.made = nil, x.made-len(gone)
	return gone
}

// Lend gives a member the first idle instance that fits.
func (x *Instances) Lend(h *Holding, fits func(inst any) bool) bool {
	i := slices.IndexFunc(x.idle, fits)
	if i < 0 {
		return false
	}
	h.Instance, h.owns = x.idle[i], true
	x.idle = slices.Delete(x.idle, i, i+1)
	return true
}

// Enter counts a worker as being here; Exit ends that.
func (x *Instances) Enter(h *Holding) {
	if !h.inUse {
		h.inUse, h.mark = true, x.marked.mark
		x.busy++
	}
}

func (x *Instances) Exit(h *Holding) {
	if h.inUse {
		h.inUse = false
		x.busy--
		if h.mark != x.marked.mark {
			x.marked.left--
		}
	}
}

// Mark begins a mark: all workers that are here count as marked.
func (x *Instances) Mark() { x.marked = marked{x.marked.mark + 1, int32(x.busy)} }

// Pass uncounts a worker, and gives it the present mark.
func (x *Instances) Pass(h *Holding) {
	if h.inUse && h.mark != x.marked.mark {
		h.mark = x.marked.mark
		x.marked.left--
	}
}
