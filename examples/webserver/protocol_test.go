//go:build linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	get = "GET /digits.txt HTTP/1.1\r\nHost: test\r\n\r\n"
	bye = "GET /bye HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" // answered with 404 and closed
)

func TestEachRequestHasItsStatus(t *testing.T) {
	h := openServer(t, testLimits())
	rows := []struct {
		name   string
		says   string
		status []int // of the answers, in order
		stays  bool  // the connection stays open after the last of them
	}{
		{"a GET", get, []int{200}, true},
		{"requests in a row, in the order in which they came", get + "GET /no HTTP/1.1\r\nHost: t\r\n\r\n" + get, []int{200, 404, 200}, true},
		{"a slow page is not overtaken", "GET /work?n=100000 HTTP/1.1\r\nHost: t\r\n\r\n" + get, []int{200, 200}, true},
		{"lines that end without a carriage return", "GET / HTTP/1.1\nHost: t\n\n", []int{200}, true},
		{"empty lines before a request", "\r\n\n\r\n" + get, []int{200}, true},
		{"a whole URL", "GET http://other/digits.txt HTTP/1.1\r\nHost: t\r\n\r\n", []int{200}, true},
		{"a whole URL without a path", "GET http://other HTTP/1.1\r\nHost: t\r\n\r\n", []int{200}, true},
		{"a query on a file", "GET /digits.txt?a=b HTTP/1.1\r\nHost: t\r\n\r\n", []int{200}, true},

		{"the client wants to close", "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", []int{200}, false},
		{"nothing is answered after a close", "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n" + get + get, []int{200}, false},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", []int{200}, false},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", []int{200}, true},

		{"known methods that are not allowed", "DELETE / HTTP/1.1\r\nHost: t\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n", []int{405, 405}, true},
		{"an unknown method", "BREW /pot HTTP/1.1\r\nHost: t\r\n\r\n", []int{501}, true},
		{"CONNECT", "CONNECT test:80 HTTP/1.1\r\nHost: test:80\r\n\r\n", []int{405}, true},

		{"a POST with a body, which is skipped", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nGET /" + get, []int{405, 200}, true},
		{"a GET with a body, which is skipped", "GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 30000\r\n\r\n" + strings.Repeat("x", 30000) + get, []int{200, 200}, true},
		{"a body that is too large", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1048577\r\n\r\n", []int{413}, false},
		{"a body in chunks", "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + get, []int{411}, false},
		{"a GET with a body in chunks", "GET / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get, []int{411}, false},
		{"a body of two lengths", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", []int{400}, false},
		{"a body with a length and in chunks", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{411}, false},
		{"an unknown transfer encoding", "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: rot13\r\n\r\n", []int{400}, false},
		{"a negative length", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n", []int{400}, false},

		{"a client that waits for 100 Continue gets the last answer", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", []int{405}, false},
		{"a client that waits, and has nothing to send", "GET / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n", []int{200}, true},
		{"a client that expects something else", "GET / HTTP/1.1\r\nHost: t\r\nExpect: a miracle\r\n\r\n", []int{417}, false},
		{"HTTP/1.0 that expects something else", "GET / HTTP/1.0\r\nExpect: a miracle\r\n\r\n", []int{417}, false},
		{"HTTP/1.0 does not wait for 100 Continue", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", []int{405}, true},

		{"no Host", "GET / HTTP/1.1\r\n\r\n", []int{400}, false},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}, false},
		{"no version", "GET /\r\n\r\n", []int{400}, false},
		{"a wrong version", "GET / HTTP/one\r\nHost: t\r\n\r\n", []int{400}, false},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{505}, false},
		{"a header without a colon", "GET / HTTP/1.1\r\nHost: t\r\nnonsense\r\n\r\n", []int{400}, false},
		{"a space before the colon", "GET / HTTP/1.1\r\nHost : t\r\n\r\n", []int{400}, false},
		{"a length with a space before the colon, whose body looks like a request", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length : 44\r\n\r\n" + get, []int{400}, false},
		{"chunks with a space before the colon", "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding : chunked\r\n\r\n" + get, []int{400}, false},
		{"a length with a tab before the colon", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length\t: 44\r\n\r\n" + get, []int{400}, false},
		{"a folded length", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length:\r\n 44\r\n\r\n" + get, []int{400}, false},
		{"a folded header", "GET / HTTP/1.1\r\nHost: t\r\nX: a\r\n\tb\r\n\r\n" + get, []int{400}, false},
		{"a space before the first header", "GET / HTTP/1.1\r\n Host: t\r\n\r\n" + get, []int{400}, false},
		{"a header name with a space", "GET / HTTP/1.1\r\nHost: t\r\nX Y: z\r\n\r\n" + get, []int{400}, false},
		{"a header name that is empty", "GET / HTTP/1.1\r\nHost: t\r\n: z\r\n\r\n" + get, []int{400}, false},
		{"a header name that is no token", "GET / HTTP/1.1\r\nHost: t\r\nX\x01: z\r\n\r\n" + get, []int{400}, false},
		{"a control byte in a header", "GET / HTTP/1.1\r\nHost: t\r\nX: \x00\r\n\r\n" + get, []int{400}, false},
		{"a carriage return in a header", "GET / HTTP/1.1\r\nHost: t\r\nX: a\rContent-Length: 44\r\n\r\n" + get, []int{400}, false},
		{"a length that is a list", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 44, 44\r\n\r\n" + get, []int{400}, false},
		{"a length with a sign", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: +44\r\n\r\n" + get, []int{400}, false},
		{"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + get, []int{400}, false},
		{"a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n" + get, []int{400}, false},
		{"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" + get, []int{400}, false},
		{"a Host with a user", "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n" + get, []int{400}, false},
		{"an invalid Host beside a whole URL", "GET http://t/ HTTP/1.1\r\nHost: a b\r\n\r\n" + get, []int{400}, false},
		{"a whole URL without Host", "GET http://t/ HTTP/1.1\r\n\r\n" + get, []int{400}, false},
		{"CONNECT without Host", "CONNECT t:80 HTTP/1.1\r\n\r\n" + get, []int{400}, false},
		{"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", []int{200}, true},
		{"HTTP/1.0 with an invalid Host", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", []int{400}, false},
		{"a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400}, false},
		{"a bad escape", "GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n", []int{400}, false},
		{"an invalid path", "GET nowhere HTTP/1.1\r\nHost: t\r\n\r\n", []int{400}, false},
		{"a star as the path", "GET * HTTP/1.1\r\nHost: t\r\n\r\n", []int{400}, true},
		{"a header that is too large", "GET / HTTP/1.1\r\nHost: t\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", []int{431}, false},
		{"a header that does not end", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 100<<10), []int{431}, false},
		{"a path that is too long", "GET /" + strings.Repeat("x", 20<<10), []int{431}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := *h
			h.t = t
			c := h.dial()
			c.say(row.says)
			if row.stays {
				c.say(bye)
				row.status = append(row.status, 404)
			}
			method, _, _ := strings.Cut(row.says, " ")
			for i, status := range row.status {
				got := c.hear(method)
				assert.Equal(t, status, got.StatusCode, "answer %d: %s", i+1, got.body)
				assert.NotEmpty(t, got.Header.Get("Date"))
				last := i == len(row.status)-1
				assert.Equal(t, last, got.Close, "Connection: close is in the last answer only")
				method = ""
			}
			c.ends()
		})
	}
}

func TestAnHTTP10ClientGetsKeepAlive(t *testing.T) {
	h := openServer(t, testLimits())
	c := h.dial()
	c.say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	assert.Equal(t, "keep-alive", c.hear("GET").Header.Get("Connection"))
}

func TestRefusalsNameTheAlternative(t *testing.T) {
	h := openServer(t, testLimits())
	assert.Equal(t, "GET, HEAD", h.ask("POST", "/").Header.Get("Allow"))
	assert.Contains(t, h.ask("GET", "/work?n=0").body, "n=1 to")
}

func TestAHeadIsAnsweredLikeAGetWithoutTheBody(t *testing.T) {
	h := openServer(t, testLimits())
	for _, path := range []string{"/", "/digits.txt", "/large.bin", "/sub/", "/sub", "/none", "/work?n=1", "/work?n=x", "/empty.txt"} {
		t.Run(path, func(t *testing.T) {
			h := *h
			h.t = t
			whole := h.ask("GET", path)
			c := h.dial()
			c.say("HEAD " + path + " HTTP/1.1\r\nHost: t\r\n\r\n" + bye)
			head := c.hear("HEAD")
			assert.Equal(t, whole.Status, head.Status)
			assert.Equal(t, len(whole.body), int(head.ContentLength))
			whole.Header.Del("Date")
			head.Header.Del("Date")
			assert.Equal(t, whole.Header, head.Header)
			assert.Equal(t, 404, c.hear("GET").StatusCode, "there was no body")
		})
	}
}

func TestPathsLeadToFilesAndNowhereElse(t *testing.T) {
	h := openServer(t, testLimits())
	rows := []struct {
		path   string
		status int
		body   string
		kind   string
	}{
		{"/", 200, "<h1>home</h1>", "text/html; charset=utf-8"},
		{"/index.html", 200, "<h1>home</h1>", "text/html; charset=utf-8"},
		{"//index.html", 200, "<h1>home</h1>", ""},
		{"/./index.html", 200, "<h1>home</h1>", ""},
		{"/sub/", 200, "<h1>sub</h1>", ""},
		{"/sub/index.html", 200, "<h1>sub</h1>", ""},
		{"/style.css", 200, "p {}", "text/css; charset=utf-8"},
		{"/noext", 200, "<html>what am I?", "text/html; charset=utf-8"},
		{"/a%20b%25.txt", 200, "odd name", "text/plain; charset=utf-8"},
		{"/empty.txt", 200, "", ""},
		{"/large", 200, large(), "text/plain; charset=utf-8"},
		{"/inside.txt", 200, "0123456789", ""},
		{"/..hidden/dots.md", 200, "two dots begin this name", ""},

		{"/none", 404, "", "text/plain; charset=utf-8"},
		{"/none/at/all", 404, "", ""},
		{"/digits.txt/", 404, "", ""},
		{"/digits.txt/below", 404, "", ""},
		{"/bare/", 404, "", ""},
		{"/pipe", 404, "", ""},
		{"/circle", 404, "", ""},
		{"/" + strings.Repeat("x", 300), 404, "", ""},

		{"/outside.txt", 404, "", ""},
		{"/absolute.txt", 404, "", ""},
		{"/up/secret.txt", 404, "", ""},
		{"/../secret.txt", 400, "", ""},
		{"/sub/../../secret.txt", 400, "", ""},
		{"/%2e%2e/secret.txt", 400, "", ""},
		{"/..%2fsecret.txt", 400, "", ""},
		{"/%2e%2e%2fsecret.txt", 400, "", ""},
		{"/..%5csecret.txt", 400, "", ""},
		{"/sub/..", 400, "", ""},
		{"/%00", 400, "", ""},
		{"/index.html%00.png", 400, "", ""},
	}
	for _, row := range rows {
		t.Run(row.path, func(t *testing.T) {
			h := *h
			h.t = t
			got := h.ask("GET", row.path)
			assert.Equal(t, row.status, got.StatusCode)
			assert.NotContains(t, got.body, "secret")
			if row.status == 200 {
				requireSame(t, row.body, got.body)
				assert.NotEmpty(t, got.Header.Get("ETag"))
				assert.NotEmpty(t, got.Header.Get("Last-Modified"))
			}
			if row.kind != "" {
				assert.Equal(t, row.kind, got.Header.Get("Content-Type"))
			}
		})
	}
}

func TestADirectoryIsRedirectedToItsSlash(t *testing.T) {
	h := openServer(t, testLimits())
	rows := []struct{ path, location string }{
		{"/sub", "/sub/"}, {"/sub?a=b&c", "/sub/?a=b&c"}, {"//sub", "/sub/"}, {"/./sub", "/sub/"}, {"/%73ub", "/sub/"},
	}
	for _, row := range rows {
		got := h.ask("GET", row.path)
		assert.Equal(t, 301, got.StatusCode)
		assert.Equal(t, row.location, got.Header.Get("Location"))
	}
}

func TestAChangeOfAFileWithTheSameSizeAndTimeIsDetected(t *testing.T) {
	h := openServer(t, testLimits())
	before := h.ask("GET", "/digits.txt")
	name := filepath.Join(h.root, "digits.txt")
	old, err := os.Stat(name)
	require.NoError(t, err)
	for {
		h.write("digits.txt", "9876543210")
		require.NoError(t, os.Chtimes(name, old.ModTime(), old.ModTime()))
		now, err := os.Stat(name)
		require.NoError(t, err)
		if now.Sys().(*syscall.Stat_t).Ctim != old.Sys().(*syscall.Stat_t).Ctim { // its clock has ticked
			break
		}
	}
	after := h.ask("GET", "/digits.txt", "If-None-Match: "+before.Header.Get("ETag"))
	assert.Equal(t, 200, after.StatusCode)
	assert.Equal(t, "9876543210", after.body)
}

func TestAChangeOfAFileIsDetected(t *testing.T) {
	h := openServer(t, testLimits())
	before := h.ask("GET", "/digits.txt")
	h.write("digits.txt", "changed and longer")
	after := h.ask("GET", "/digits.txt")
	assert.Equal(t, "changed and longer", after.body)
	assert.NotEqual(t, before.Header.Get("ETag"), after.Header.Get("ETag"))
	h.remove("digits.txt")
	assert.Equal(t, 404, h.ask("GET", "/digits.txt").StatusCode)
	h.write("digits.txt", "back")
	assert.Equal(t, "back", h.ask("GET", "/digits.txt").body)
}

func TestConditionsAndRangesAreApplied(t *testing.T) {
	h := openServer(t, testLimits())
	for _, name := range []string{"/digits.txt", "/large.bin"} {
		whole := h.ask("GET", name)
		etag, modified := whole.Header.Get("ETag"), whole.Header.Get("Last-Modified")
		size := len(whole.body)
		rows := []struct {
			name, headers string
			status        int
			from, to      int // of the body
		}{
			{"the same tag", "If-None-Match: " + etag, 304, 0, 0},
			{"the same tag, weak", "If-None-Match: W/" + etag, 304, 0, 0},
			{"one of many tags", `If-None-Match: "x", ` + etag, 304, 0, 0},
			{"any tag", "If-None-Match: *", 304, 0, 0},
			{"another tag", `If-None-Match: "x"`, 200, 0, size},
			{"not modified since", "If-Modified-Since: " + modified, 304, 0, 0},
			{"modified since long ago", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT", 200, 0, size},
			{"a tag counts for more than a time", "If-None-Match: \"x\"\r\nIf-Modified-Since: " + modified, 200, 0, size},
			{"an invalid time", "If-Modified-Since: yesterday", 200, 0, size},
			{"must match another", `If-Match: "x"`, 412, 0, 0},
			{"must match this", "If-Match: " + etag, 200, 0, size},
			{"must be unmodified since long ago", "If-Unmodified-Since: Mon, 02 Jan 2006 15:04:05 GMT", 412, 0, 0},

			{"a range", "Range: bytes=2-5", 206, 2, 6},
			{"the first byte", "Range: bytes=0-0", 206, 0, 1},
			{"from somewhere on", "Range: bytes=7-", 206, 7, size},
			{"the last bytes", "Range: bytes=-3", 206, size - 3, size},
			{"more than there is", "Range: bytes=5-99999999", 206, 5, size},
			{"the last of more than there is", "Range: bytes=-99999999", 206, 0, size},
			{"beyond the end", "Range: bytes=99999999-", 416, 0, 0},
			{"backwards", "Range: bytes=5-2", 416, 0, 0},
			{"no range at all", "Range: bytes=x", 416, 0, 0},
			{"another unit", "Range: lines=1-2", 200, 0, size},
			{"several ranges are answered with the whole", "Range: bytes=0-1,4-5", 200, 0, size},
			{"a range of this", "Range: bytes=2-5\r\nIf-Range: " + etag, 206, 2, 6},
			{"a range of another", "Range: bytes=2-5\r\nIf-Range: \"x\"", 200, 0, size},
			{"a range of this time", "Range: bytes=2-5\r\nIf-Range: " + modified, 206, 2, 6},
			{"a range of an unchanged file", "Range: bytes=2-5\r\nIf-None-Match: " + etag, 304, 0, 0},
		}
		for _, row := range rows {
			t.Run(name+": "+row.name, func(t *testing.T) {
				h := *h
				h.t = t
				got := h.ask("GET", name, row.headers)
				require.Equal(t, row.status, got.StatusCode)
				switch row.status {
				case 200, 206:
					requireSame(t, whole.body[row.from:row.to], got.body)
					assert.Equal(t, etag, got.Header.Get("ETag"))
				case 304:
					assert.Equal(t, etag, got.Header.Get("ETag"))
					assert.Empty(t, got.Header.Get("Content-Length"))
				case 416:
					assert.Contains(t, []string{fmt.Sprintf("bytes */%d", size), ""}, got.Header.Get("Content-Range"))
				}
				if row.status == 206 {
					assert.Equal(t, fmt.Sprintf("bytes %d-%d/%d", row.from, row.to-1, size), got.Header.Get("Content-Range"))
				}
				head := h.ask("HEAD", name, row.headers)
				if row.status == 206 || row.status == 416 { // ranges apply to GET only
					row.status = 200
				}
				assert.Equal(t, row.status, head.StatusCode)
			})
		}
	}
}

func TestTheEmbeddedSiteIsServedWithTagsOfItsBytes(t *testing.T) {
	site, err := demoSite()
	require.NoError(t, err)
	h := openAt(t, testLimits(), site)
	got := h.ask("GET", "/")
	assert.Equal(t, 200, got.StatusCode)
	assert.Contains(t, got.body, "Golda")
	assert.Equal(t, 304, h.ask("GET", "/index.html", "If-None-Match: "+got.Header.Get("ETag")).StatusCode)
	assert.Equal(t, 404, h.ask("GET", "/none").StatusCode)
	assert.Equal(t, 404, h.ask("GET", "/index.html/").StatusCode)
}

func TestTheDynamicPageComputesTheRequestedRounds(t *testing.T) {
	h := openServer(t, testLimits())
	rows := []struct {
		query  string
		status int
	}{
		{"?n=1", 200},
		{"?n=1000", 200},
		{"?n=1000000", 200},
		{"?n=%31", 200},
		{"?n=2&other=3", 200},
		{"", 400},
		{"?n=", 400},
		{"?n=0", 400},
		{"?n=-1", 400},
		{"?n=1000001", 400},
		{"?n=99999999999999999999", 400},
		{"?n=1e3", 400},
		{"?n=1&n=2", 400},
		{"?n=x", 400},
		{"?%zz", 400},
		{"?n=1;n=2", 400},
	}
	for _, row := range rows {
		got := h.ask("GET", "/work"+row.query)
		assert.Equal(t, row.status, got.StatusCode, row.query)
	}
	one := h.ask("GET", "/work?n=1")
	assert.Contains(t, one.body, "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925", "SHA-256 of 32 zeros")
	assert.Equal(t, "no-store", one.Header.Get("Cache-Control"))
}

func TestManyRequestsAtOnceAreAnsweredInOrder(t *testing.T) {
	h := openServer(t, testLimits())
	c := h.dial()
	var all strings.Builder
	const n = 2000
	for i := range n {
		fmt.Fprintf(&all, "GET /work?n=%d HTTP/1.1\r\nHost: t\r\n\r\n", 1+i%7)
	}
	go func() { _, _ = c.Write([]byte(all.String())) }() // more than fits: the server reads it as the answers are read
	for i := range n {
		require.Contains(t, c.hear("GET").body, fmt.Sprintf("SHA-256, %d times", 1+i%7))
	}
}

func TestARequestMayComeByteByByte(t *testing.T) {
	h := openServer(t, testLimits())
	c := h.dial()
	for _, b := range []byte(get + bye) {
		c.say(string(b))
	}
	assert.Equal(t, "0123456789", c.hear("GET").body)
	assert.Equal(t, 404, c.hear("GET").StatusCode)
	c.ends()
}

func TestAHalfClosedClientIsAnswered(t *testing.T) {
	h := openServer(t, testLimits())
	for _, path := range []string{"/digits.txt", "/large.bin", "/work?n=10000"} {
		c := h.dial()
		c.say("GET " + path + " HTTP/1.1\r\nHost: t\r\n\r\n" + get)
		require.NoError(t, c.CloseWrite())
		assert.Equal(t, 200, c.hear("GET").StatusCode)
		assert.Equal(t, "0123456789", c.hear("GET").body)
		c.ends()
	}
}

func TestAClientThatHalfClosesInARequestIsClosed(t *testing.T) {
	h := openServer(t, testLimits())
	c := h.dial()
	c.say("GET / HTTP/1.1\r\nHost:")
	require.NoError(t, c.CloseWrite())
	c.ends()
}

func TestAClientThatDisconnectsAffectsNoOther(t *testing.T) {
	h := openServer(t, testLimits())
	for _, words := range []string{"", "GET", get, "GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n", "GET /work?n=200000 HTTP/1.1\r\nHost: t\r\n\r\n"} {
		for _, linger := range []int{-1, 0} { // 0: the connection is reset
			c := h.dial()
			c.say(words)
			require.NoError(t, c.SetLinger(linger))
			require.NoError(t, c.Close())
		}
	}
	assert.Equal(t, 200, h.ask("GET", "/").StatusCode)
}

func TestASlowClientDelaysNoOther(t *testing.T) {
	h := openServer(t, testLimits())
	slow := h.dial()
	slow.say("GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n" + get)
	for range 100 {
		require.Equal(t, 200, h.ask("GET", "/").StatusCode)
	}
	requireSame(t, large(), slow.hear("GET").body)
	assert.Equal(t, "0123456789", slow.hear("GET").body)
}

func TestEachWaitHasALimit(t *testing.T) {
	rows := []struct {
		name   string
		limit  func(*limits)
		says   string
		status int // 0: the connection is closed without an answer
	}{
		{"with a client that says nothing", func(l *limits) { l.request = 0 }, "", 0},
		{"with a head that does not end", func(l *limits) { l.request = 20 * time.Millisecond }, "GET / HTTP/1.1\r\nHost:", 408},
		{"with a client that says nothing more", func(l *limits) { l.idle = 0 }, get, 200},
		{"with a body that does not come", func(l *limits) { l.request = 20 * time.Millisecond }, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n", 405},
		{"with a client that does not hang up after a refusal", func(l *limits) { l.linger = 0 }, "nonsense\r\n\r\n", 400},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			l := testLimits()
			row.limit(&l)
			c := openServer(t, l).dial()
			c.say(row.says)
			if row.status != 0 {
				assert.Equal(t, row.status, c.hear("").StatusCode)
			}
			c.ends()
		})
	}
}

func TestEachWaitHasItsOwnLimitFromItsOwnStart(t *testing.T) {
	const body = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n"
	l := testLimits()
	rows := []struct {
		name  string
		says  []string // with a second between them
		limit time.Duration
		from  int // the index of the text with which the wait starts
	}{
		{"for a request", []string{get}, l.idle, 0},
		{"for a request after an empty line", []string{get + "\r\n"}, l.idle, 0},
		{"for a request after an empty line that came later", []string{get, "\r\n"}, l.idle, 0},
		{"for the rest of an empty line", []string{get, "\r"}, l.idle, 0},
		{"for a request after an empty line in two parts", []string{get, "\r", "\n"}, l.idle, 0},
		{"for the rest of a head", []string{get, "GET", " /"}, l.request, 1},
		{"for the rest of a head that came with a request", []string{get + "GET"}, l.request, 0},
		{"for a body", []string{body}, l.request, 0},
		{"for a body of which a byte came with the head", []string{body + "x"}, l.request, 0},
		{"for the rest of a body", []string{body, "x", "x"}, l.request, 0},
		{"for a request after a body", []string{body, "12345"}, l.idle, 1},
		{"for the rest of a head after a body", []string{body, "12345GET"}, l.request, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := newManual(t, l)
			var began time.Duration
			for i, words := range row.says {
				h.pass(time.Second)
				if i == row.from {
					began = h.now()
				}
				h.say(words)
			}
			assert.InDelta(t, (began + row.limit).Seconds(), time.Duration(h.conn.deadline.Load()).Seconds(), 0.5)
		})
	}
}

func TestAClientThatStopsReadingIsClosedOnceAfterTheLimit(t *testing.T) {
	l := testLimits()
	h := newManual(t, l)
	h.answer = text(200, large())
	h.say(get)
	began := h.now()
	h.hear(64 << 10) // makes a little space, too little for a signal
	for !h.closed() {
		h.pass(time.Second)
		if h.conn.expired(h.now()) {
			h.raise(late)
		}
	}
	ended := (h.now() - began).Seconds()
	assert.GreaterOrEqual(t, ended, l.write.Seconds())
	assert.Less(t, ended, 1.2*l.write.Seconds())
}

func TestAClientThatReadsALittleNowAndThenIsNotClosed(t *testing.T) {
	h := newManual(t, testLimits())
	h.answer = text(200, large())
	h.say(get)
	for range 15 { // reads 64 KiB in 20 seconds
		for range 20 {
			h.pass(time.Second)
			if h.conn.expired(h.now()) {
				h.raise(late)
			}
		}
		require.False(t, h.closed())
		h.hear(64 << 10)
	}
}

func TestASlowLorisDoesNotExtendItsLimitWithEachByte(t *testing.T) {
	l := testLimits()
	l.request = 50 * time.Millisecond
	c := openServer(t, l).dial()
	c.say("GET / HTTP/1.1\r\n")
	go func() {
		for { // until the server closes it
			if _, err := c.Write([]byte("X: y\r\n")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	assert.Equal(t, http.StatusRequestTimeout, c.hear("GET").StatusCode)
}

func TestAClientThatReadsNothingIsClosed(t *testing.T) {
	l := testLimits()
	l.write = 20 * time.Millisecond
	h := openServer(t, l)
	c := h.dial()
	c.say(strings.Repeat("GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n", 100))
	for h.stats.sent.Load() == 0 || h.connections() > 0 { // until it has started, and is closed
		time.Sleep(time.Millisecond)
	}
}
