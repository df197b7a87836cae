//go:build race

package pipeline_test

// raced tells that the race detector is at work, which has costs of its own.
const raced = true
