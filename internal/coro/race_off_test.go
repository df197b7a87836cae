//go:build !race

package coro_test

const raceDetector = false
