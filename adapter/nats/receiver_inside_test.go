package nats

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

func TestAFeedThatIsAwayDoesNotWaitLongerThanTheConnection(t *testing.T) {
	dir, port := t.TempDir(), server.RANDOM_PORT
	launch := func() *server.Server {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
		require.NoError(t, err)
		s.Start()
		require.True(t, s.ReadyForConnections(time.Minute))
		return s
	}
	halt := func(s *server.Server) {
		s.Shutdown()
		s.WaitForShutdown()
	}
	s := launch()
	port = s.Addr().(*net.TCPAddr).Port
	conn, err := Connect(t.Context(), s.ClientURL())
	require.NoError(t, err)
	defer func() { halt(s) }() // the last one
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	before := conn.nc.Stats().Reconnects
	halt(s)
	back := make(chan bool)
	go func() { back <- (&receiver{conn: conn}).rest(t.Context(), time.Hour, before) }()
	s = launch()
	require.True(t, <-back)
}
