package main

import (
	"sync"

	"github.com/golda-dev/golda/stage"
)

// census counts the images that are decoded and neither saved nor abandoned,
// and remembers the largest count. It is safe for concurrent use. The zero
// census is ready to use.
type census struct {
	mu        sync.Mutex // guards the fields below
	now, peak int
}

// enter counts a job's image, once.
func (c *census) enter(j *job) {
	if !j.alive.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.peak = max(c.peak, c.now)
}

// leave stops counting it.
func (c *census) leave(j *job) {
	if !j.alive.CompareAndSwap(true, false) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// removeDead handles the dead letters: images that never reached save.
func (c *census) removeDead(letter stage.DeadLetter) {
	if j, ok := letter.Command.(*job); ok {
		c.leave(j)
	}
}

func (c *census) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
