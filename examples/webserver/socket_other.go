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

// What follows lets the program be built elsewhere, to say that it can't run there.
type (
	socket int
	door   struct{ net.Listener }
	poller struct{}
)

func newDoor(net.Listener) (door, error) { return door{}, errLinux }
func newPoller() (*poller, error)        { return nil, errLinux }

func (socket) read([]byte) (int, error)    { return 0, errLinux }
func (socket) write([][]byte) (int, error) { return 0, errLinux }
func (socket) endWrite()                   {}
func (socket) close()                      {}

func (door) accept() (socket, error) { return 0, errLinux }

func (*poller) add(socket, tag) error   { return errLinux }
func (*poller) addDoor(door, tag) error { return errLinux }
func (*poller) until(time.Time) error   { return errLinux }
func (*poller) wait() (int, error)      { return 0, errLinux }
func (*poller) event(int) (tag, sign)   { return tag{}, 0 }
func (*poller) close()                  {}

func openFiles() (int, error) { return math.MaxInt32, nil }

func stampOf(info fs.FileInfo) stamp { return stamp{modified: info.ModTime().UnixNano()} }
