//go:build !race

package brokertest

// raced is whether the race detector is on.
const raced = false
