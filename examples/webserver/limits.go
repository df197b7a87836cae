package main

import "time"

// limits are the limits for the cost of a client.
type limits struct {
	connections int   // served concurrently
	spare       int   // accepted in addition, but only to be refused
	head        int   // bytes of a request line with its headers
	body        int64 // bytes of a request's body, which is read and discarded
	cached      int64 // bytes of a file that is kept in the cache

	idle    time.Duration // from an answer to the next request
	request time.Duration // from the first byte of a request to the last of its headers, or from its answer to the end of its body
	write   time.Duration // in which a client accepts nothing of its answer
	linger  time.Duration // from a last answer to the end of the client's bytes
	drain   time.Duration // from the start of the drain to the end of all answers
	// fresh is for how long a cached file is not compared with the disk.
	fresh time.Duration
	tick  time.Duration // between two checks of the clock
}

// defaultLimits returns the limits of the program; tests use shorter ones.
func defaultLimits() limits {
	return limits{
		connections: 4096,
		spare:       64,
		head:        16 << 10,
		body:        1 << 20,
		cached:      256 << 10,
		idle:        60 * time.Second,
		request:     10 * time.Second,
		write:       30 * time.Second,
		linger:      2 * time.Second,
		drain:       10 * time.Second,
		fresh:       time.Second,
		tick:        100 * time.Millisecond,
	}
}
