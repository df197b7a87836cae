package crash

import "log/slog"

// Guard runs user code that is not a handler, such as Start, Stop or a
// condition, in a goroutine of its own, so that neither a panic nor
// runtime.Goexit affects the caller. It returns the code's error, or an
// [*Error] if the code panicked or ended its goroutine. Handlers are not run by
// Guard: a goroutine for each would cost too much.
func Guard(stage string, f func() error) error { return <-Try(stage, f) }

// Try is [Guard] for callers that may not wait for the end: the channel has the
// error when the code has ended.
func Try(stage string, f func() error) <-chan error {
	ended := make(chan error, 1)
	Go(stage, f, func(err error) { ended <- err })
	return ended
}

// Go is [Guard] for callers that do not wait: the goroutine calls then with the
// error before it ends.
func Go(stage string, f func() error, then func(error)) {
	go func() {
		done := false
		defer func() {
			if done {
				return
			}
			value := recover()
			if value == nil {
				value = ErrGoexit
			}
			then((&Thrown{Value: value, At: sites.here(nil)}).ErrorAt(stage))
		}()
		err := f()
		done = true
		then(err)
	}()
}

// Log logs an error of user code. The log calls the error's Error method, which
// may panic or end the goroutine.
func Log(log *slog.Logger, stage, message string, err error) {
	_ = Guard(stage, func() error { // a crash of the log cannot be logged
		log.Error(message, "stage", stage, "error", err)
		return nil
	})
}
