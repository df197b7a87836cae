package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// An event loop with a timer that ends it, and a channel.
func Example() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	words := make(chan string)
	go func() {
		for _, w := range []string{"one", "two", "three"} {
			words <- w
		}
	}()
	s.Register(scheduler.Chan(words), func(_ coroutine.Context, ev any) { fmt.Println(ev) })
	s.Register(scheduler.After(50*time.Millisecond), func(coroutine.Context, any) { s.Stop() })
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// one
	// two
	// three
}

// Each Step handles at most one event, and waits for none.
func ExampleScheduler_Step() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Go(func(coroutine.Context) { fmt.Println("first") })
	s.Go(func(coroutine.Context) { fmt.Println("second") })
	fmt.Println(s.Step(0))
	fmt.Println(s.Step(0))
	fmt.Println(s.Step(0))
	// Output:
	// first
	// true
	// second
	// true
	// false
}

// A handler takes two events at a time: it asks for the second itself.
func ExampleRegistration_Next() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	numbers := make(chan int, 4)
	for i := range 4 {
		numbers <- i
	}
	close(numbers)
	var r *scheduler.Registration
	r = s.Register(scheduler.Chan(numbers), func(c coroutine.Context, first any) {
		second, err := r.Next(c)
		if err != nil {
			return
		}
		fmt.Println(first, "and", second)
	})
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// 0 and 1
	// 2 and 3
}

// Two units are shared by three tasks.
func ExampleSemaphore() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	sem := scheduler.NewSemaphore(2)
	for i := range 3 {
		s.Go(func(c coroutine.Context) {
			if sem.Acquire(c) != nil {
				return
			}
			defer sem.Release()
			fmt.Println(i, "enters")
			_ = coroutine.Yield(c)
			fmt.Println(i, "leaves")
		})
	}
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// 0 enters
	// 1 enters
	// 0 leaves
	// 1 leaves
	// 2 enters
	// 2 leaves
}

// A task waits for the end of others.
func ExampleTask_Join() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	sum := 0
	var parts []*scheduler.Task
	for i := range 3 {
		parts = append(parts, s.Go(func(coroutine.Context) { sum += i }))
	}
	s.Go(func(c coroutine.Context) {
		for _, p := range parts {
			if err := p.Join(c); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println(sum)
	})
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output: 3
}

// A wait has a time limit: any wait accepts the bound context.
func ExampleSemaphore_Acquire() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	sem := scheduler.NewSemaphore(0)
	s.Go(func(c coroutine.Context) {
		ctx, cancel := context.WithTimeout(c, time.Millisecond)
		defer cancel()
		fmt.Println(sem.Acquire(coroutine.WithContext(ctx, c)))
		fmt.Println(sem.TryAcquire())
	})
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// coroutine: the wait ended with its context: context deadline exceeded
	// false
}

// A source that blocks can be a function; it ends with io.EOF or when its context ends.
func ExampleSourceFunc() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Register(scheduler.SourceFunc(func(_ context.Context, notify func(any)) error {
		for i := range 2 {
			notify(i) // the result of a blocking read
		}
		return io.EOF
	}), func(_ coroutine.Context, ev any) { fmt.Println(ev) })
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// 0
	// 1
}

// Each task waits for the other; Loop reports it.
func ExampleErrDeadlock() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	a, b := scheduler.NewSemaphore(1), scheduler.NewSemaphore(1)
	both := func(first, second *scheduler.Semaphore) func(coroutine.Context) {
		return func(c coroutine.Context) {
			_ = first.Acquire(c)
			_ = coroutine.Yield(c)
			_ = second.Acquire(c)
		}
	}
	s.Go(both(a, b))
	s.Go(both(b, a))
	err := s.Loop()
	fmt.Println(errors.Is(err, scheduler.ErrDeadlock))
	fmt.Println(err)
	// Output:
	// true
	// scheduler: deadlock: 2 of 2 tasks are blocked, and nothing is left that could wake them
}

// With a seed the order is random, but the same each time: a test can try many.
func ExampleConfig_rand() {
	lost := 0
	for seed := range uint64(100) {
		s := scheduler.New(scheduler.Config{Rand: rand.New(rand.NewPCG(seed, 0))})
		n := 0
		for range 2 {
			s.Go(func(c coroutine.Context) {
				old := n
				_ = coroutine.Yield(c) // after this n may have changed, and the task ignores that
				n = old + 1
			})
		}
		_ = s.Loop()
		s.Close()
		if n != 2 {
			lost++
		}
	}
	fmt.Println("an update was lost under some seeds:", lost > 0, "but not under all:", lost < 100)
	// Output: an update was lost under some seeds: true but not under all: true
}
