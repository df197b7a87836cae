//go:build !linux

package main

import "time"

// metronome wakes its user at regular times, as exactly as the runtime's timers
// do.
type metronome struct{ ticker *time.Ticker }

func newMetronome(every time.Duration) (*metronome, error) {
	return &metronome{time.NewTicker(every)}, nil
}

// wait waits for the next beat, or returns at once if one has passed since the
// last.
func (m *metronome) wait() error {
	<-m.ticker.C
	return nil
}

func (m *metronome) stop() { m.ticker.Stop() }
