package coroutine

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/golda-dev/golda/internal/coro"
)

// Await runs the blocking function f on a goroutine of its own and suspends the
// handler until f returns; it returns the results of f. The context given to f
// is derived from c and is cancelled when Await returns. If the handler is
// stopped, Await returns ErrStopped, and if c is bound to a context that ends
// ([WithContext]), that context's error; in both cases it does not wait for f
// and drops its result. If f panics, Await returns a *PanicError; if it calls
// runtime.Goexit, ErrGoexit.
func Await[T any](c Context, f func(ctx context.Context) (T, error)) (T, error) {
	need(c != nil, "Await: the Context is nil")
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	var got struct {
		value T
		err   error
	}
	got.err = ErrGoexit // stays if f ends by Goexit
	err := suspendApart(c, func(wake func()) {
		go func() {
			defer wake()
			got.value, got.err = call(ctx, f)
		}()
	})
	if err != nil { // f may still be running, so got must not be read
		var none T
		return none, err
	}
	return got.value, got.err
}

// need panics if the program passes an argument that has no meaning.
func need(ok bool, problem string) {
	if !ok {
		panic("coroutine: " + problem)
	}
}

// aparter is a context that distinguishes a wake-up by a goroutine outside the
// tasks; see coro.Config.Apart.
type aparter interface {
	SuspendApart(start func(wake func())) error
}

// suspendApart suspends a handler that a goroutine outside the tasks will wake.
// It does not call start if the handler has been stopped.
func suspendApart(c Context, start func(wake func())) error {
	if t, ok := coro.TaskOf(c); ok {
		if err := t.Refused(); err != nil {
			return err
		}
	}
	if a, ok := c.(aparter); ok {
		return a.SuspendApart(start)
	}
	return c.Suspend(start)
}

// call calls f, and turns a panic of f into an error.
func call[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (value T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	need(f != nil, "the function is nil")
	return f(ctx)
}

// Sleep suspends the handler for at least d. If d is not positive, Sleep is the
// same as Yield.
func Sleep(c Context, d time.Duration) error {
	if t, ok := c.(*coro.Task); ok {
		return t.Sleep(d)
	}
	var timer *time.Timer
	err := c.Suspend(func(wake func()) { timer = time.AfterFunc(d, wake) })
	if timer != nil {
		timer.Stop()
	}
	return err
}

// Yield lets every ready handler run before c continues.
func Yield(c Context) error {
	need(c != nil, "Yield: the Context is nil")
	if t, ok := c.(*coro.Task); ok {
		return t.Yield()
	}
	return c.Suspend(func(wake func()) { wake() })
}
