package nats_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy carries connections from one process to another, unless it is cut.
type proxy struct {
	l  net.Listener
	to string

	running sync.WaitGroup
	mu      sync.Mutex // guards the rest
	isCut   bool
	conns   map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.carry(in) })
	}
}

// carry carries a connection until one side ends it, or the proxy is cut.
func (p *proxy) carry(in net.Conn) {
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = in.Close()
		return
	}
	p.mu.Lock()
	cut := p.isCut
	p.conns[in], p.conns[out] = true, true
	p.mu.Unlock()
	if !cut {
		var both sync.WaitGroup
		both.Go(func() { copyAndClose(out, in) })
		both.Go(func() { copyAndClose(in, out) })
		both.Wait()
	}
	p.mu.Lock()
	delete(p.conns, in)
	delete(p.conns, out)
	p.mu.Unlock()
	_, _ = in.Close(), out.Close()
}

func copyAndClose(to, from net.Conn) {
	_, _ = io.Copy(to, from) // the connection ends in any case
	_, _ = to.Close(), from.Close()
}

// cut ends all connections, and those to come.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}
