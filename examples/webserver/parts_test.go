//go:build linux

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCacheKeepsTheFilesThatWereRequestedLast(t *testing.T) {
	c := newCache(3*(overhead+2), time.Second)
	for _, path := range []string{"/a", "/b", "/c"} {
		c.put(path, &file{}, 0)
	}
	_, _ = c.get("/a", 0)
	c.put("/d", &file{}, 0)
	kept := map[string]bool{}
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		f, _ := c.get(path, 0)
		kept[path] = f != nil
	}
	assert.Equal(t, map[string]bool{"/a": true, "/b": false, "/c": true, "/d": true}, kept)
	c.put("/a", &file{data: []byte("more")}, 0)
	assert.LessOrEqual(t, c.bytes, c.limit)
	hits, misses := c.counts()
	assert.EqualValues(t, 4, hits)
	assert.EqualValues(t, 1, misses)
	for path := range c.files {
		c.drop(path)
	}
	c.drop("/none")
	assert.Zero(t, c.bytes)
	assert.Zero(t, c.byAge.Len())
}

func TestACacheOfSizeZeroKeepsNothing(t *testing.T) {
	c := newCache(0, time.Second)
	c.put("/a", &file{}, 0)
	f, _ := c.get("/a", 0)
	assert.Nil(t, f)
}

func TestOneOfManyRequestsChecksAFileThatIsNotFresh(t *testing.T) {
	c := newCache(1<<20, time.Second)
	c.put("/a", &file{}, 0)
	for _, row := range []struct {
		at    time.Duration
		fresh bool
	}{{0, true}, {999 * time.Millisecond, true}, {time.Second, false}, {time.Second, true}, {2 * time.Second, false}} {
		f, fresh := c.get("/a", row.at)
		assert.NotNil(t, f)
		assert.Equal(t, row.fresh, fresh, row.at)
	}
}

func TestAConnectionHasOneOwnerAndNoSignalIsMissed(t *testing.T) {
	const n = 100_000
	var s signals
	s.begin()
	work := make(chan struct{}, 1) // what the owner gets; more than one at a time would block for ever
	raised, seen := 0, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range work {
			for {
				if s.has(readable) {
					s.drop(readable)
					seen++ // a data race, if there were two owners
				}
				if s.park(readable) {
					break
				}
			}
		}
	}()
	for range n {
		raised++
		if s.raise(readable) {
			work <- struct{}{}
		}
	}
	close(work)
	<-done
	assert.False(t, s.has(readable|taken), "the last signal was seen, and the connection is parked")
	assert.LessOrEqual(t, seen, raised)
	assert.Positive(t, seen)
}

func TestTheHeadOfAPlainAnswerAllocatesNothing(t *testing.T) {
	a := text(200, "hello")
	b := make([]byte, 0, 1024)
	date := []byte("today")
	assert.Zero(t, testing.AllocsPerRun(100, func() { b = a.appendHead(b[:0], date) }))
	assert.Equal(t, "HTTP/1.1 200 OK\r\nDate: today\r\n"+string(plainText)+"Content-Length: 5\r\n\r\n", string(b))
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		get, bye, get + get, "\r\n" + get, "GET / HTTP/1.0\n\n", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET http://t HTTP/1.1\r\nHost: t\r\n\r\n",
		"GET /%2e%2e/ HTTP/1.1\r\nHost: t\r\n\r\n", "GET / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n", "\x16\x03\x01", "\r", "A",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n c: d\r\nHost: t\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	l := defaultLimits()
	l.head = 512
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			t.Skip("longer inputs are only slower")
		}
		p := newParser(l)
		n, req, refused := p.next(in)
		require.LessOrEqual(t, n, len(in))
		switch {
		case refused != nil:
			require.GreaterOrEqual(t, refused.status, 400)
			require.True(t, refused.final, "after an invalid request the connection ends")
		case req == nil:
			require.LessOrEqual(t, len(in)-n, l.head, "a head that is too large is refused, not waited for")
		default:
			if clean, refused := target(req); refused == nil {
				require.True(t, strings.HasPrefix(clean, "/") && !strings.HasPrefix(clean, "//"), clean)
				require.NotContains(t, strings.Split(clean, "/"), "..")
			}
		}
		// However the bytes are split, they mean the same.
		for cut := range in {
			early, got, err := p.next(in[:cut])
			if got != nil {
				require.Equal(t, n, early)
			}
			if err != nil {
				require.NotNil(t, refused, "refused at %d of %d", cut, len(in))
				break
			}
		}
	})
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(get + bye))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc" + get))
	f.Add([]byte("\x16\x03\x01"))
	site, err := demoSite()
	require.NoError(f, err)
	h := openAt(f, testLimits(), site)
	f.Fuzz(func(t *testing.T, in []byte) {
		h := *h
		h.t = t
		c := h.dial()
		go func() {
			_, _ = c.Write(in) // it may be refused before everything is sent
			_ = c.CloseWrite()
		}()
		for { // answers, and then the end
			r, err := http.ReadResponse(c.reader, nil)
			if err != nil {
				return
			}
			require.GreaterOrEqual(t, r.StatusCode, 200)
			require.Less(t, r.StatusCode, 600)
			_ = r.Body.Close() // reads it
		}
	})
}
