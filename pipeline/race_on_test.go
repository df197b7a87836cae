//go:build race

package pipeline_test

// raced reports that the race detector is on, which costs time and memory.
const raced = true
