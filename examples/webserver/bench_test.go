//go:build linux

package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// One client, one request at a time: the allocations are those of net/http's parser.
//
//	go test -run '^$' -bench Request ./examples/webserver
func BenchmarkRequest(b *testing.B) {
	site, err := demoSite()
	require.NoError(b, err)
	h := openAt(b, defaultLimits(), site)
	c := h.dial()
	ask := []byte("GET /mark.svg HTTP/1.1\r\nHost: test\r\n\r\n")
	answer := make([]byte, 4096)
	one := func() int {
		_, err := c.Write(ask)
		require.NoError(b, err)
		n, err := c.Read(answer)
		require.NoError(b, err)
		return n
	}
	size := one() // the file is in the cache now
	require.True(b, bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(ask); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer[:size]); err != nil {
			b.Fatal(err)
		}
	}
}
