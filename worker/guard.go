package worker

import "time"

// Guard runs user code that is not a handler, such as Start, Stop or a
// condition, in a goroutine of its own, so that neither a panic nor
// runtime.Goexit affects the caller. It returns the code's error, or a
// [*CrashError] if the code panicked or ended its goroutine. Handlers are not
// run by Guard: a goroutine for each would cost too much.
func Guard(stage string, f func() error) error { return <-try(stage, f) }

// try is [Guard] for callers that may not wait for the end.
func try(stage string, f func() error) <-chan error {
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
			at := sites.here(nil)
			then(&CrashError{Stage: stage, Value: value, Stack: at.stack, site: at})
		}()
		err := f()
		done = true
		then(err)
	}()
}

// LogPanic logs an error of user code. The log calls the error's Error method,
// which may panic or end the goroutine.
func (s *Stage) LogPanic(message string, err error) {
	_ = Guard(s.Inbox.Name(), func() error { // a crash of the log cannot be logged
		s.Log.Error(message, "stage", s.Inbox.Name(), "error", err)
		return nil
	})
}

// cutPause is the pause between two lines that say that a pause was cut.
const cutPause = time.Minute

// logCut logs that another program has asked for a longer pause than the stage
// makes.
func (s *Stage) logCut(now int64, asked, pause time.Duration, err error) {
	last := s.saidCut.Load()
	if last != 0 && now-last < int64(cutPause) || !s.saidCut.CompareAndSwap(last, max(now, 1)) {
		return
	}
	_ = Guard(s.Inbox.Name(), func() error { // a crash of the log cannot be logged
		s.Log.Warn("a command is tried again before the time that its error asks for; see stage.RetryPolicy.Max",
			"stage", s.Inbox.Name(), "asked", asked, "pause", pause, "error", err)
		return nil
	})
}
