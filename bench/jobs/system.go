package main

import (
	"context"
	"time"
)

// job is a job of any queue, as its message has it.
type job struct {
	ID     string
	Urgent bool
	Added  int64 // when, in nanoseconds since 1970
}

// system is a job queue that is compared.
type system struct {
	name, what string
	// redis says whether it needs a Redis server.
	redis bool
	// durable says when writes are synced, by default and with -sync.
	durable [2]string
	// urgent says how an urgent job comes before others.
	urgent string
	// gone says when the jobs of a process that is gone are tried again.
	gone string
	// open opens the queue in this process.
	open func(ctx context.Context, o order) (queue, error)
}

// queue is an open queue. Any number of goroutines may call add and left.
type queue interface {
	// add adds a job, and returns when the system has it.
	add(ctx context.Context, j job) error
	// work handles jobs until ctx ends, order.AtOnce at a time.
	work(ctx context.Context, handle func(job) error) error
	// left returns how many jobs are in the queue.
	left(ctx context.Context) (int, error)
	close(ctx context.Context) error
}

// goneAfter is how long after its last sign of life a process counts as gone,
// in systems that have a setting for it.
const goneAfter = 2 * time.Second

// systems returns all systems.
func systems() []system {
	return []system{golda, riverQueue, asynqQueue, mill}
}

func systemNamed(name string) (system, bool) {
	for _, s := range systems() {
		if s.name == name {
			return s, true
		}
	}
	return system{}, false
}
