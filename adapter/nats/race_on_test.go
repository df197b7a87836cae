//go:build race

package nats_test

// race reports whether the race detector is on.
const race = true
