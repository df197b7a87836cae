package main

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errAgain says that a socket can't go on now, and that there will be a signal when it can.
var errAgain = errors.New("try again")

// socket is a TCP connection that never blocks: where there is nothing to read or no
// room to write, it says so.
type socket int

// read reads what is there. At the end of the client's bytes it is [io.EOF].
func (s socket) read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(s), b)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err != unix.EINTR:
			return 0, orAgain(err)
		}
	}
}

// write writes as many bytes of the parts as there is room for. It fails only if it has written none.
func (s socket) write(parts [][]byte) (int, error) {
	for {
		n, err := unix.Writev(int(s), parts)
		if err == nil {
			return n, nil
		}
		if err != unix.EINTR {
			return 0, orAgain(err)
		}
	}
}

// orAgain tells the error that is none from the others.
func orAgain(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return errAgain
	}
	return err
}

// endWrite tells the client that nothing more will come.
func (s socket) endWrite() { _ = unix.Shutdown(int(s), unix.SHUT_WR) }

func (s socket) close() { _ = unix.Close(int(s)) }

// door is where connections come in.
type door struct {
	net.Listener
	socket int
}

func newDoor(l net.Listener) (door, error) {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return door{}, err
	}
	d := door{Listener: l}
	err = raw.Control(func(fd uintptr) { d.socket = int(fd) }) // good until the listener is closed
	return d, err
}

// accept takes the next connection in, or says errAgain if there is none. Go's runtime does
// not hear of the socket: the poller alone watches it.
func (d door) accept() (socket, error) {
	for {
		fd, _, err := unix.Accept4(d.socket, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // else slower, no worse
			return socket(fd), nil
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return 0, orAgain(err)
		}
	}
}

// poller tells which of many sockets something has happened to. It is Linux's epoll,
// edge-triggered: each signal is told once.
//
// The epoll instance is itself a file that Go's runtime can wait for. So one goroutine waits
// for thousands of connections, and while it waits it holds no thread.
type poller struct {
	file   *os.File
	raw    syscall.RawConn
	events [256]unix.EpollEvent
	n      int
	look   func(fd uintptr) bool
	fault  error
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else NewFile does not think of waiting for it
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll")}
	p.raw, err = p.file.SyscallConn()
	p.look = p.lookOnce // made once: a closure for each look would be garbage
	return p, err
}

// add begins to watch a socket. Each event of it carries the tag.
func (p *poller) add(s socket, tag tag) error {
	return p.watch(int(s), unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET, tag)
}

// addDoor begins to watch a door.
func (p *poller) addDoor(d door, tag tag) error {
	return p.watch(d.socket, unix.EPOLLIN|unix.EPOLLET, tag)
}

func (p *poller) watch(fd int, events uint32, tag tag) (err error) {
	ctl := func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: tag.slot, Pad: tag.generation})
	}
	if closed := p.raw.Control(ctl); closed != nil {
		return closed
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// until sets the time at which [poller.wait] gives up.
func (p *poller) until(t time.Time) error { return p.file.SetReadDeadline(t) }

// wait waits until something has happened and returns how much, at most as long as
// [poller.until] says; then the error is [os.ErrDeadlineExceeded].
func (p *poller) wait() (int, error) {
	if err := p.raw.Read(p.look); err != nil {
		return 0, err
	}
	return p.n, p.fault
}

func (p *poller) lookOnce(fd uintptr) bool {
	n, err := unix.EpollWait(int(fd), p.events[:], 0)
	if err == unix.EINTR {
		n, err = 0, nil
	}
	p.n, p.fault = max(n, 0), os.NewSyscallError("epoll_wait", err)
	return p.n > 0 || p.fault != nil
}

// event returns the tag of the i-th event, and its signals.
func (p *poller) event(i int) (of tag, what sign) {
	e := p.events[i]
	if e.Events&unix.EPOLLIN != 0 {
		what |= readable
	}
	if e.Events&unix.EPOLLOUT != 0 {
		what |= writable
	}
	if e.Events&unix.EPOLLRDHUP != 0 {
		what |= readable | hungUp
	}
	if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		what |= readable | writable | hungUp
	}
	return tag{slot: e.Fd, generation: e.Pad}, what
}

func (p *poller) close() { _ = p.file.Close() }

// openFiles is how many files this process may have open.
func openFiles() (int, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return int(min(r.Cur, math.MaxInt32)), nil
}

// stampOf returns the stamp of a file. A file within the program has none.
func stampOf(info fs.FileInfo) stamp {
	on, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{modified: on.Mtim.Nano(), changed: on.Ctim.Nano(), inode: on.Ino}
}
