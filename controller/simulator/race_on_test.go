//go:build race

package simulator_test

// raced says that the race detector is on: it has nothing to find in one goroutine, and makes a run ten times as long.
const raced = true
