package nats_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy carries connections from one process to another, unless it is cut or
// stalled.
type proxy struct {
	l  net.Listener
	to string

	running sync.WaitGroup
	mu      sync.Mutex // guards the rest
	isCut   bool
	stallAt string        // nothing is carried on after data that has this text
	stalled chan struct{} // closed when something was held back; nil unless stallAt was called
	resume  chan struct{} // closed when all is carried on
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
		both.Go(func() { p.copyAndClose(out, in) })
		both.Go(func() { p.copyAndClose(in, out) })
		both.Wait()
	}
	p.mu.Lock()
	delete(p.conns, in)
	delete(p.conns, out)
	p.mu.Unlock()
	_, _ = in.Close(), out.Close()
}

func (p *proxy) copyAndClose(to, from net.Conn) {
	_, _ = io.Copy(stallable{p, to}, from) // the connection ends in any case
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

// stall has the proxy hold back all data from the next data on that has a text.
// The channel is closed then. Resume ends that; it may be called twice.
func (p *proxy) stall(at string) (stalled <-chan struct{}, resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallAt, p.stalled, p.resume = at, make(chan struct{}), make(chan struct{})
	return p.stalled, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.resume)
		p.resume = nil
	})
}

// hold waits while the proxy is stalled, which some data may begin.
func (p *proxy) hold(data []byte) {
	p.mu.Lock()
	resume := p.resume
	if resume != nil && p.stalled != nil && bytes.Contains(data, []byte(p.stallAt)) {
		close(p.stalled)
		p.stalled = nil
	}
	begun := p.stalled == nil
	p.mu.Unlock()
	if resume != nil && begun {
		<-resume
	}
}

// stallable holds data back while its proxy is stalled.
type stallable struct {
	of *proxy
	to io.Writer
}

func (s stallable) Write(b []byte) (int, error) {
	s.of.hold(b)
	return s.to.Write(b)
}
