package main

import (
	"sync"

	"github.com/golda-dev/golda/stage"
)

// census counts the images that are decoded and neither saved nor given up, and
// remembers the most that there ever were. It is safe for use by several goroutines. The
// zero census is ready.
type census struct {
	mu        sync.Mutex // guards what follows
	now, peak int
}

// born counts a job's image, once.
func (c *census) born(j *job) {
	if !j.alive.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.peak = max(c.peak, c.now)
}

// gone counts it no more.
func (c *census) gone(j *job) {
	if !j.alive.CompareAndSwap(true, false) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// bury hears of the images that never came to save.
func (c *census) bury(letter stage.DeadLetter) {
	if j, ok := letter.Command.(*job); ok {
		c.gone(j)
	}
}

func (c *census) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
