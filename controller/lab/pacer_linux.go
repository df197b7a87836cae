package lab

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pacer waits until a time. A sleep of the Go runtime may take a millisecond
// more, and a timer that the runtime's poller waits for is exact to some ten
// microseconds.
type pacer struct {
	timer *os.File
	ticks [8]byte
}

func newPacer() (*pacer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &pacer{timer: os.NewFile(uintptr(fd), "timer")}, nil
}

// wait waits for a time above 0.
func (p *pacer) wait(d time.Duration) error {
	raw, err := p.timer.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	err = raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	if err == nil && failed == nil {
		_, err = p.timer.Read(p.ticks[:])
	}
	if failed != nil {
		return os.NewSyscallError("timerfd_settime", failed)
	}
	return err
}

func (p *pacer) stop() { _ = p.timer.Close() }
