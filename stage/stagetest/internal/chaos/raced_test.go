//go:build race

package chaos_test

// raced reports whether the race detector is on.
const raced = true
