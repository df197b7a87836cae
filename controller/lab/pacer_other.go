//go:build !linux

package lab

import "time"

// pacer waits until a time, as exactly as the system's timers do.
type pacer struct{}

func newPacer() (*pacer, error) { return &pacer{}, nil }

// wait waits for a time above 0.
func (*pacer) wait(d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (*pacer) stop() {}
