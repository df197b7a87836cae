//go:build linux

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
)

// FuzzFraming sends the same bytes to this server and to net/http's: the requests that this server accepts are those
// that the other one accepts, from the first on. This server may refuse more, and ends there.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		get, bye, get + get, "\r\n" + get, "GET / HTTP/1.0\n\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc" + get,
		"POST / HTTP/1.1\r\nHost: t\r\nContent-Length : 44\r\n\r\n" + get,
		"POST / HTTP/1.1\r\nHost: t\r\nContent-Length:\r\n 44\r\n\r\n" + get,
		"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 44\r\nContent-Length: 44\r\n\r\n" + get,
		"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get,
		"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + get,
		"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get,
		"GET http://t/ HTTP/1.1\r\n\r\n" + get, "GET http://a HTTP/1.1\r\nHost: b\r\n\r\n" + get, "GET / HTTP/1.1\r\nHost:\r\n\r\n" + get,
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n" + get, "GET / HTTP/1.1\r\nHost: t\r\nX Y: z\r\n\r\n" + get,
		"CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n" + get, "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n" + get,
		"GET / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n" + get, "GET / HTTP/1.1\r\nHost: t\r\nX: a\rb\r\n\r\n" + get,
		"GET / HTTP/1.0\r\nExpect: a miracle\r\n\r\n" + get,
	} {
		f.Add([]byte(seed))
	}
	m := newModel(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			t.Skip("longer inputs are only slower")
		}
		ours, plain := understand(in)
		theirs := m.taken(plain)
		require.GreaterOrEqual(t, len(theirs), len(ours), "it takes a request that net/http refuses: %+v", ours)
		for i := range ours {
			require.Equal(t, theirs[i], ours[i])
		}
	})
}

// asked is a request as a server understands it.
type asked struct {
	method, uri, host string
	header            http.Header
	length            int64
}

func ask(r *http.Request) asked {
	return asked{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.ContentLength}
}

// understand returns the requests that this server accepts from the bytes of a client, and the bytes without the empty
// lines before a request, which net/http's server refuses.
func understand(in []byte) (all []asked, plain []byte) {
	s := &server{limits: defaultLimits()}
	p := s.newParse(behaviour.NewPort[*conn]("next"), behaviour.NewPort[*conn]("refused"))().(*parse)
	c := new(conn)
	for p.data = in; ; c.forget() {
		body := min(int(c.body), len(p.data))
		plain = append(plain, p.data[:body]...)
		rest := p.data[body+emptyLines(p.data[body:]):]
		_, done := p.take(c)
		plain = append(plain, rest[:max(0, len(rest)-len(p.data))]...) // nothing of a request that is refused at once
		understood := done && c.req != nil && (c.ans.status == 0 || !c.ans.unsure)
		if understood {
			all = append(all, ask(c.req))
		}
		if !understood || c.ans.last {
			return all, append(plain, p.data...)
		}
	}
}

// model is net/http's server without a network.
type model struct{ clients chan net.Conn }

func newModel(tb testing.TB) *model {
	tb.Helper()
	m := &model{clients: make(chan net.Conn)}
	s := &http.Server{
		Handler:                      m,
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, m, c) },
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            time.Minute,
	}
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(m) })
	tb.Cleanup(func() {
		_ = s.Close()
		served.Wait()
	})
	return m
}

// taken returns the requests that the model accepts from the bytes of a client.
func (m *model) taken(in []byte) []asked {
	s := &script{in: bytes.NewReader(in), ended: make(chan struct{})}
	m.clients <- s
	<-s.ended
	return s.asked
}

// ServeHTTP records a request.
func (m *model) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s := r.Context().Value(m).(*script)
	s.asked = append(s.asked, ask(r))
}

func (m *model) Accept() (net.Conn, error) {
	c, ok := <-m.clients
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (m *model) Close() error {
	close(m.clients)
	return nil
}

func (m *model) Addr() net.Addr { return &net.TCPAddr{} }

// script is a connection on which a client sends everything at once.
type script struct {
	in    *bytes.Reader
	asked []asked
	once  sync.Once
	ended chan struct{} // closed when the server reads no more of it
}

func (s *script) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error) { return len(b), nil }

// CloseWrite is called by net/http's server half a second before it closes a connection of which it has not read
// everything.
func (s *script) CloseWrite() error { return s.Close() }

func (s *script) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
