//go:build !race

package stagetest_test

// raced reports whether the race detector is on.
const raced = false
