package coroutine

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// Gather runs blocking functions at the same time, each on a goroutine of its
// own as [Await] does, and suspends the handler until all of them have
// returned. It returns their results in the order of the functions. If some
// failed the error is a [*GatherError], and the results of the others are in
// the slice all the same.
//
// In a stage's handler this is how the answers of several stages are collected,
// without holding a worker:
//
//	offers, err := coroutine.Gather(c,
//		func(ctx context.Context) (Offer, error) { return north.Call(ctx, order) },
//		func(ctx context.Context) (Offer, error) { return south.Call(ctx, order) })
//
// The context of the functions is derived from c and is cancelled when Gather
// returns. If the handler is stopped, or c is bound to a context that ends
// ([WithContext]), Gather returns that error and no results, and does not wait
// for the functions; the commands of their calls end with the context. A panic
// in a function is its error, as with [Await].
func Gather[T any](c Context, fs ...func(ctx context.Context) (T, error)) ([]T, error) {
	values, errs := make([]T, len(fs)), make([]error, len(fs))
	failed, left := 0, len(fs)
	err := each(c, fs, func(i int, value T, err error) (enough bool) {
		values[i], errs[i] = value, err
		if err != nil {
			failed++
		}
		left--
		return left == 0
	})
	switch {
	case err != nil:
		return nil, err
	case failed > 0:
		return values, &GatherError{Errs: errs}
	default:
		return values, nil
	}
}

// First runs functions as [Gather] does, and returns the result of the first
// that succeeds. The context of the others is cancelled then, their results are
// dropped, and First does not wait for them. If all functions fail, the error
// is a [*GatherError].
func First[T any](c Context, fs ...func(ctx context.Context) (T, error)) (T, error) {
	var first, none T
	won, left, errs := false, len(fs), make([]error, len(fs))
	err := each(c, fs, func(i int, value T, err error) (enough bool) {
		errs[i] = err
		if err == nil {
			first, won = value, true
		}
		left--
		return won || left == 0
	})
	switch {
	case err != nil:
		return none, err
	case !won:
		return none, &GatherError{Errs: errs}
	default:
		return first, nil
	}
}

// Race runs functions as [Gather] does, and returns the results of the first
// that returns, its error included. The context of the others is cancelled
// then, their results are dropped, and Race does not wait for them.
func Race[T any](c Context, fs ...func(ctx context.Context) (T, error)) (T, error) {
	var first T
	firstErr := error(&GatherError{})
	err := each(c, fs, func(_ int, value T, err error) (enough bool) {
		first, firstErr = value, err
		return true
	})
	if err != nil {
		var none T
		return none, err
	}
	return first, firstErr
}

// GatherError is the error of a [Gather] of which some functions failed, and of
// a [First] of which all did. [errors.Is] and [errors.As] inspect all errors. A
// First or a Race of no functions has a GatherError without errors.
type GatherError struct {
	// Errs has an element for each function, in their order: its error, or nil.
	Errs []error
}

// Error returns how many functions failed, and the texts of their errors with
// the places of the functions, counted from 0.
func (e *GatherError) Error() string {
	if len(e.Errs) == 0 {
		return "coroutine: there is no function to run"
	}
	failed := e.Unwrap()
	var b strings.Builder
	fmt.Fprintf(&b, "coroutine: %d of %d functions failed", len(failed), len(e.Errs))
	for i, err := range e.Errs {
		if err != nil {
			fmt.Fprintf(&b, "; %d: %v", i, err)
		}
	}
	return b.String()
}

// Unwrap returns the errors, without the nil ones.
func (e *GatherError) Unwrap() (failed []error) {
	for _, err := range e.Errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// each starts functions, and suspends the handler until one of their results is
// enough. It calls done with one result after the other, and not after one was
// enough or each has returned.
func each[T any](
	c Context, fs []func(ctx context.Context) (T, error), done func(i int, value T, err error) (enough bool),
) error {
	if len(fs) == 0 {
		return nil
	}
	need(c != nil, "Gather, First or Race: the Context is nil")
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	var mu sync.Mutex // guards over, and is held while done is called
	over := false
	returned := func(i int, value T, err error) (enough bool) {
		mu.Lock()
		defer mu.Unlock()
		over = over || done(i, value, err)
		return over
	}
	err := suspendApart(c, func(wake func()) {
		for i, f := range fs {
			go func() {
				var value T
				err := ErrGoexit // stays if f ends by Goexit
				defer func() {
					if returned(i, value, err) {
						wake()
					}
				}()
				value, err = call(ctx, f)
			}()
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if over { // perhaps at the moment at which the handler was stopped
		return nil
	}
	over = true // later results are dropped
	return err
}
