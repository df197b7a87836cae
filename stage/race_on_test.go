//go:build race

package stage_test

// raced reports that the race detector is on, which costs time and memory.
const raced = true
