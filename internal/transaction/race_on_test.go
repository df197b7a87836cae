//go:build race

package transaction

// raced says that the race detector is on: it has nothing to find here, and makes a run ten times as long.
const raced = true
