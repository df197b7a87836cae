package pool

// Inside is a copy of what a set keeps for itself, for tests.
type Inside[M any] struct {
	Idle      []*M
	Waking    int
	Unstarted int
	Called    bool // an unstarted worker is
}

// Inspect returns the inside of a set.
func (s *Set[M]) Inspect() Inside[M] {
	inside := Inside[M]{Waking: int(s.waking), Unstarted: int(s.unstarted), Called: s.called}
	for _, a := range s.idle {
		inside.Idle = append(inside.Idle, a.of)
	}
	return inside
}

// Inspect returns the inside of the set of the pool's workers, and how many
// tokens the pool has, for tests.
func (p *Pool[M, I]) Inspect() (set Inside[M], excess, tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set.Inspect(), p.set.Excess(), p.ready.len() + int(p.noted.Load())
}

// Tokens returns how many tokens of the inbox the pool has, for tests.
func (b *Binding[M, I]) Tokens() (n int) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	for _, t := range b.pool.ready.heap {
		if t.of == b {
			n++
		}
	}
	if b.note.Load() != 0 {
		n++
	}
	return n
}

// InsideInstances is a copy of what instances keep for themselves, for tests.
type InsideInstances struct {
	Idle []any
	Made int
}

// Inspect returns the inside of instances.
func (x *Instances) Inspect() InsideInstances {
	return InsideInstances{Idle: append([]any(nil), x.idle...), Made: x.made}
}
