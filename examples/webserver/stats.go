package main

import "sync/atomic"

// stats count what clients were told. Stages at work add to them.
type stats struct {
	accepted atomic.Uint64    // connections
	refused  atomic.Uint64    // connections for which there was no room
	byClass  [6]atomic.Uint64 // answers, by the first digit of their status
	sent     atomic.Uint64    // bytes
}

// count counts an answer.
func (s *stats) count(status int) { s.byClass[status/100].Add(1) }
