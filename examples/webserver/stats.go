package main

import "sync/atomic"

// stats counts connections and answers. Running stages add to it.
type stats struct {
	accepted atomic.Uint64    // connections
	refused  atomic.Uint64    // connections that were one too many
	byClass  [6]atomic.Uint64 // answers, by the first digit of their status
	sent     atomic.Uint64    // bytes
}

// count counts an answer.
func (s *stats) count(status int) { s.byClass[status/100].Add(1) }
