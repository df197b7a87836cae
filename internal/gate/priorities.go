package gate

import "sync/atomic"

// priorities is a sample of the priorities of recent commands. A command takes
// a random place, so many goroutines note one each without a common counter,
// and old commands disappear: after 1,000 further ones, two of three are gone.
type priorities struct {
	places [1 << 10]atomic.Int64 // a priority, doubled, plus one; 0: none
}

// note adds the priority of a command, at a place by chance: a number from 0 to
// less than 1.
func (p *priorities) note(priority int, chance float64) {
	const most = 1 << 61
	p.places[int(chance*float64(len(p.places)))%len(p.places)].Store(min(max(int64(priority), -most), most)<<1 | 1)
}

// list returns the priorities.
func (p *priorities) list() (all []int) {
	for i := range p.places {
		if n := p.places[i].Load(); n != 0 {
			all = append(all, int(n>>1))
		}
	}
	return all
}
