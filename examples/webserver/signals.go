package main

import "sync/atomic"

// sign is what may be said of a connection by somebody who does not own it.
type sign uint32

const (
	taken    sign = 1 << iota // somebody owns it: a stage, or the source on its way to one
	readable                  // there may be something to read
	writable                  // there may be room to write
	hungUp                    // the client sends no more; the end of its bytes is still to be read
	late                      // a time limit may be over
)

// signals hold the signals of one connection, and with them the right to touch it.
//
// The source raises signals; whoever raises one on a connection that nobody owns, owns
// it. A stage that has nothing left to do parks the connection, and fails to if a signal
// that it would wait for has been raised meanwhile. So no signal is missed, and no two
// stages ever work at one connection, without a lock.
type signals struct{ bits atomic.Uint32 }

// raise sets signals. It reports whether the caller owns the connection now.
func (s *signals) raise(some sign) (mine bool) {
	return sign(s.bits.Or(uint32(some|taken)))&taken == 0
}

// drop takes signals back. Drop a signal before you do what it asks for, not after: one that
// is raised in between means something new.
func (s *signals) drop(some sign) { s.bits.And(^uint32(some)) }

// take takes signals back, as drop does, and returns those that were set.
func (s *signals) take(some sign) sign { return sign(s.bits.And(^uint32(some))) & some }

// has reports whether any of some is set.
func (s *signals) has(some sign) bool { return sign(s.bits.Load())&some != 0 }

// park gives the connection up until a signal is raised. It reports false, and the caller
// keeps the connection, if any of awaited is set already.
func (s *signals) park(awaited sign) bool {
	for {
		now := s.bits.Load()
		if sign(now)&awaited != 0 {
			return false
		}
		if s.bits.CompareAndSwap(now, now&^uint32(taken)) {
			return true
		}
	}
}

// begin gives a new connection up for the first time.
func (s *signals) begin() { s.bits.Store(0) }

// end keeps everybody's hands off a connection that is closed.
func (s *signals) end() { s.bits.Store(uint32(taken)) }
