//go:build race

package stagetest_test

// raced says that the race detector is at work.
const raced = true
