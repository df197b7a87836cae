package main

import "sync/atomic"

// sign is a signal to the owner of a connection.
type sign uint32

const (
	taken    sign = 1 << iota // the connection has an owner: a stage, or the source on its way to one
	readable                  // there may be bytes to read
	writable                  // the socket may accept bytes
	hungUp                    // the client sends no more; the end of its bytes is still to be read
	late                      // a time limit may have passed
)

// signals hold the signals of one connection, and its ownership.
//
// The source raises signals. A goroutine that raises a signal on a connection
// without an owner becomes its owner. A stage that has nothing left to do parks
// the connection; parking fails if a signal that it would wait for has been
// raised meanwhile. So no signal is missed, and no two stages ever work on one
// connection, without a lock.
type signals struct{ bits atomic.Uint32 }

// raise sets signals. It reports whether the caller owns the connection now.
func (s *signals) raise(some sign) (mine bool) {
	return sign(s.bits.Or(uint32(some|taken)))&taken == 0
}

// drop clears signals. Drop a signal before acting on it: a signal that is
// raised in between means something new.
func (s *signals) drop(some sign) { s.bits.And(^uint32(some)) }

// take clears signals, as drop does, and returns the signals that were set.
func (s *signals) take(some sign) sign { return sign(s.bits.And(^uint32(some))) & some }

// has reports whether any of some is set.
func (s *signals) has(some sign) bool { return sign(s.bits.Load())&some != 0 }

// park gives up the ownership of the connection until a signal is raised. It
// reports false, and the caller keeps the connection, if any of the awaited
// signals is already set.
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

// begin gives up the ownership of a new connection for the first time.
func (s *signals) begin() { s.bits.Store(0) }

// end marks a closed connection as owned, so that no goroutine can take it.
func (s *signals) end() { s.bits.Store(uint32(taken)) }
