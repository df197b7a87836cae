package show

import (
	"fmt"
	"io"
	"time"
)

// Every writes a line about the progress of a program every second until stop
// is called. No line is written once stop has returned. If the writer is nil,
// it does nothing.
func Every(w io.Writer, line func() string) (stop func()) {
	if w == nil {
		return func() {}
	}
	tick := time.NewTicker(time.Second)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-tick.C:
				_, _ = fmt.Fprintln(w, line())
			case <-quit:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(quit)
		<-ended
	}
}
