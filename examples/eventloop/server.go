package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// server is the state that the handlers share. Only one of them runs at a time.
type server struct {
	stdout      io.Writer
	connections int
	bytes       int
}

// serve handles events until one of stop arrives.
func serve(l net.Listener, stop scheduler.Source, c config, stdout io.Writer) error {
	s := scheduler.New(scheduler.Config{Backlog: c.connections})
	defer s.Close()
	e := &server{stdout: stdout}
	s.Register(scheduler.Accept(l), e.echo)
	s.Register(scheduler.Every(c.every), e.status)
	s.Register(stop, func(coroutine.Context, any) { s.Stop() })
	return s.Loop()
}

// echo sends the bytes of one connection back.
func (e *server) echo(c coroutine.Context, ev any) {
	conn := ev.(net.Conn)
	defer func() { _ = conn.Close() }()
	e.connections++
	defer func() { e.connections-- }()
	buf := make([]byte, 4096)
	for {
		n, err := coroutine.Await(c, func(context.Context) (int, error) { return conn.Read(buf) })
		if err != nil {
			return
		}
		e.bytes += n
		_, err = coroutine.Await(c, func(context.Context) (int, error) { return conn.Write(buf[:n]) })
		if err != nil {
			return
		}
	}
}

func (e *server) status(coroutine.Context, any) {
	_, _ = fmt.Fprintln(e.stdout, e.connections, "connections,", e.bytes, "bytes")
}
