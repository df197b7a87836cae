//go:build !linux

package main

import (
	"errors"
	"io/fs"
	"math"
	"net"
	"time"
)

var (
	errAgain = errors.New("try again")
	errLinux = errors.New("this server waits for its connections with epoll, which only Linux has")
)

// The definitions below let the program be built on other systems, where it
// reports that it cannot run.
type (
	socket   int
	acceptor struct{ net.Listener }
	poller   struct{}
)

func newAcceptor(net.Listener) (acceptor, error) { return acceptor{}, errLinux }
func newPoller() (*poller, error)                { return nil, errLinux }

func (socket) read([]byte) (int, error)    { return 0, errLinux }
func (socket) write([][]byte) (int, error) { return 0, errLinux }
func (socket) endWrite()                   {}
func (socket) close()                      {}

func (acceptor) accept() (socket, error) { return 0, errLinux }

func (*poller) add(socket, tag) error           { return errLinux }
func (*poller) addAcceptor(acceptor, tag) error { return errLinux }
func (*poller) until(time.Time) error           { return errLinux }
func (*poller) wait() (int, error)              { return 0, errLinux }
func (*poller) event(int) (tag, sign)           { return tag{}, 0 }
func (*poller) close()                          {}

func openFiles() (int, error) { return math.MaxInt32, nil }

func stampOf(info fs.FileInfo) stamp { return stamp{modified: info.ModTime().UnixNano()} }
