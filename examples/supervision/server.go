package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
)

// server answers each line with "yes", until it is closed. It is the resource
// of a stage.
type server struct {
	at net.Listener

	mu    sync.Mutex // guards conns
	conns []net.Conn
	over  sync.WaitGroup
}

func newServer(ctx context.Context) (*server, error) {
	at, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{at: at}
	s.over.Go(s.accept)
	return s, nil
}

func (s *server) address() string { return s.at.Addr().String() }

func (s *server) accept() {
	for {
		conn, err := s.at.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.over.Go(func() { answer(conn) })
	}
}

func answer(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, "yes"); err != nil {
			return
		}
	}
}

// close ends the server and all its connections. It may be called twice.
func (s *server) close() {
	_ = s.at.Close()
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.over.Wait()
}
