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

// errAgain means that a socket cannot continue now, and that there will be a
// signal when it can.
var errAgain = errors.New("try again")

// socket is a TCP connection that never blocks: it returns errAgain if there is
// nothing to read, or if it cannot accept bytes.
type socket int

// read reads the available bytes. At the end of the client's bytes it returns
// [io.EOF].
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

// write writes as many bytes of the parts as the socket accepts. It fails only
// if it has written none.
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

// orAgain returns errAgain for the errors that mean it, and other errors
// unchanged.
func orAgain(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return errAgain
	}
	return err
}

// endWrite notifies the client that no more bytes will be sent.
func (s socket) endWrite() { _ = unix.Shutdown(int(s), unix.SHUT_WR) }

func (s socket) close() { _ = unix.Close(int(s)) }

// acceptor accepts new connections.
type acceptor struct {
	net.Listener
	socket int
}

func newAcceptor(l net.Listener) (acceptor, error) {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return acceptor{}, err
	}
	d := acceptor{Listener: l}
	err = raw.Control(func(fd uintptr) { d.socket = int(fd) }) // valid until the listener is closed
	return d, err
}

// accept accepts the next connection, or returns errAgain if there is none.
// Go's runtime does not know the socket: only the poller watches it.
func (d acceptor) accept() (socket, error) {
	for {
		fd, _, err := unix.Accept4(d.socket, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // without it the connection is slower but works
			return socket(fd), nil
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return 0, orAgain(err)
		}
	}
}

// poller reports which of many sockets have events. It is Linux's epoll,
// edge-triggered: each signal is reported once.
//
// The epoll instance is itself a file that Go's runtime can wait for. So one
// goroutine waits for thousands of connections, and holds no thread while it
// waits.
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
	if err := unix.SetNonblock(fd, true); err != nil { // otherwise NewFile does not wait for it
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll")}
	p.raw, err = p.file.SyscallConn()
	p.look = p.lookOnce // made once, because a closure for each call would be garbage
	return p, err
}

// add watches a socket. Each of its events carries the tag.
func (p *poller) add(s socket, tag tag) error {
	return p.watch(int(s), unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET, tag)
}

// addAcceptor watches an acceptor.
func (p *poller) addAcceptor(d acceptor, tag tag) error {
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

// until sets the time at which [poller.wait] returns.
func (p *poller) until(t time.Time) error { return p.file.SetReadDeadline(t) }

// wait waits for events and returns how many there are. It waits at most until
// the time of [poller.until]; then the error is [os.ErrDeadlineExceeded].
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

// openFiles returns how many files this process may have open.
func openFiles() (int, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return int(min(r.Cur, math.MaxInt32)), nil
}

// stampOf returns the stamp of a file. An embedded file has none.
func stampOf(info fs.FileInfo) stamp {
	on, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{modified: on.Mtim.Nano(), changed: on.Ctim.Nano(), inode: on.Ino}
}
