// Package route has functions that pick one of several targets for a result,
// for Route of a stage.Flow:
//
//	parse.Route(route.ByKey(customer), first, second, third)
//
// A function of yours may pick otherwise: it is given the result and the number
// of targets, and returns the number of one of them, from 0.
package route

import (
	"hash/maphash"
	"sync/atomic"
)

// RoundRobin picks the targets in turn.
func RoundRobin[Out any]() func(out Out, n int) int {
	var last atomic.Uint64
	return func(_ Out, n int) int { return int((last.Add(1) - 1) % uint64(n)) }
}

// ByKey picks one target for all results with the same key. It returns nil if
// the key is nil, and pipeline.New refuses that.
func ByKey[Out any, K comparable](key func(out Out) K) func(out Out, n int) int {
	if key == nil {
		return nil
	}
	seed := maphash.MakeSeed()
	return func(out Out, n int) int { return int(maphash.Comparable(seed, key(out)) % uint64(n)) }
}
