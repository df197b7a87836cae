package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// metronome wakes its user at regular times. A sleep of the Go runtime may take
// a millisecond, which is ten requests of W5. A timer that the runtime's poller
// waits for is exact to some ten microseconds, without spinning.
type metronome struct {
	timer *os.File
	ticks [8]byte
}

func newMetronome(every time.Duration) (*metronome, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	timer := os.NewFile(uintptr(fd), "timer")
	pace := unix.NsecToTimespec(every.Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: pace, Value: pace}, nil); err != nil {
		_ = timer.Close()
		return nil, os.NewSyscallError("timerfd_settime", err)
	}
	return &metronome{timer: timer}, nil
}

// wait waits for the next beat, or returns at once if one has passed since the
// last.
func (m *metronome) wait() error {
	_, err := m.timer.Read(m.ticks[:])
	return err
}

func (m *metronome) stop() { _ = m.timer.Close() }
