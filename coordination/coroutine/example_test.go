package coroutine_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// A handler awaits a blocking call. Meanwhile others run, on the same goroutine.
func ExampleAwait() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Go(func(c coroutine.Context) {
		word, err := coroutine.Await(c, func(context.Context) (string, error) {
			time.Sleep(10 * time.Millisecond) // or read a file, or call a service
			return "an answer", nil
		})
		fmt.Println(word, err)
	})
	s.Go(func(coroutine.Context) { fmt.Println("meanwhile") })
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// meanwhile
	// an answer <nil>
}

// Suspend turns the callback of a third-party library into a wait.
func ExampleContext() {
	upper := func(s string, done func(string)) { go done(strings.ToUpper(s)) } // the library

	ask := func(c coroutine.Context, s string) (answer string, err error) {
		err = c.Suspend(func(wake func()) {
			upper(s, func(a string) { answer = a; wake() })
		})
		return answer, err
	}

	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Go(func(c coroutine.Context) { fmt.Println(ask(c, "hello")) })
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output: HELLO <nil>
}

// A function that takes a Context can be called outside a handler.
func ExampleBlocking() {
	c := coroutine.Blocking(context.Background())
	fmt.Println(coroutine.Sleep(c, time.Millisecond))
	// Output: <nil>
}

// Each handler lets the other run.
func ExampleYield() {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	for _, name := range []string{"tick", "tock"} {
		s.Go(func(c coroutine.Context) {
			for range 2 {
				fmt.Println(name)
				if coroutine.Yield(c) != nil {
					return
				}
			}
		})
	}
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output:
	// tick
	// tock
	// tick
	// tock
}

// Gather collects the answers of several calls. With First one answer is enough, and the other calls are cancelled.
func ExampleGather() {
	ask := func(price int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return price, nil } // or call a stage: north.Call(ctx, order)
	}
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Go(func(c coroutine.Context) {
		ctx, cancel := context.WithTimeout(c, time.Second)
		defer cancel()
		fmt.Println(coroutine.Gather(coroutine.WithContext(ctx, c), ask(30), ask(20)))
	})
	if err := s.Loop(); err != nil {
		panic(err)
	}
	// Output: [30 20] <nil>
}
