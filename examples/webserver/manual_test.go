//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/golda-dev/golda/behaviour"
)

// manual is a connection whose stages a test runs one after another in its own goroutine, with a clock that the test
// sets.
type manual struct {
	*server
	t       *testing.T
	conn    *conn
	client  socket
	answer  answer // to each request that is served
	parse   behaviour.Behaviour[*conn]
	respond behaviour.Behaviour[*conn]
}

func newManual(t *testing.T, l limits) *manual {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	s := newServer(l, nil, 0)
	nowhere := behaviour.NewPort[*conn]("nowhere")
	h := &manual{
		server: s, t: t, client: socket(pair[1]), answer: text(200, "yes"),
		parse: s.newParse(nowhere, nowhere)(), respond: s.newRespond(nowhere, nowhere)(),
	}
	h.conn, _ = s.slot()
	h.conn.open(socket(pair[0]), false, s.now()+l.request)
	t.Cleanup(func() {
		h.client.close()
		if !h.closed() {
			s.close(h.conn)
		}
	})
	return h
}

// pass advances the clock.
func (h *manual) pass(d time.Duration) { h.born = h.born.Add(-d) }

func (h *manual) closed() bool { return len(h.free) > 0 }

// say sends something to the server, and returns when the server has handled it as far as it can.
func (h *manual) say(words string) {
	h.t.Helper()
	_, err := h.client.write([][]byte{[]byte(words)})
	require.NoError(h.t, err)
	h.raise(readable)
}

// hear reads up to n bytes of the server's answers.
func (h *manual) hear(n int) {
	h.t.Helper()
	_, err := h.client.read(make([]byte, n))
	require.NoError(h.t, err)
}

// raise does what the source and the stages do.
func (h *manual) raise(what sign) {
	c := h.conn
	for h.conn.signals.raise(what); c.signals.has(taken) && !h.closed(); {
		switch {
		case c.req == nil && c.ans.status == 0:
			h.parse.HandleCommand(h.t.Context(), c)
		case c.ans.status == 0:
			c.reply(h.answer)
			fallthrough
		default:
			h.respond.HandleCommand(h.t.Context(), c)
		}
	}
}
