package simulator

import "context"

// Fewest returns the smallest number of processes, from 1 to most, with which
// the result of the model is good, and that result. It is for a [Fleet] without
// an Autoscaler: good must hold for each number above one for which it holds,
// as a bound of a latency does. If it holds for no number, Fewest returns 0 and
// the result with most processes.
func Fewest(ctx context.Context, m Model, most int, good func(*Result) bool) (int, *Result, error) {
	if m.Fleet == nil || m.Fleet.Scale != nil || most < 1 || most > mostProcesses || good == nil {
		return 0, nil, fault(true, "Fewest needs a Fleet without Scale, a condition, and from 1 to %d processes, and not %d",
			mostProcesses, most)
	}
	try := func(n int) (*Result, bool, error) {
		f := *m.Fleet
		f.Processes = n
		with := m
		with.Fleet = &f
		r, err := Run(ctx, with)
		return r, err == nil && good(r), err
	}
	low, high := 0, 1 // too few, and perhaps enough
	for {
		r, ok, err := try(high)
		switch {
		case err != nil:
			return 0, nil, err
		case !ok && high == most:
			return 0, r, nil
		case !ok:
			low, high = high, min(2*high, most)
			continue
		}
		best := r
		for high-low > 1 {
			mid := (low + high) / 2
			r, ok, err := try(mid)
			switch {
			case err != nil:
				return 0, nil, err
			case ok:
				high, best = mid, r
			default:
				low = mid
			}
		}
		return high, best, nil
	}
}
