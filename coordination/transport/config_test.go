package transport_test

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/transport"
)

func TestAConfigIsChecked(t *testing.T) {
	good := func(change func(cfg *transport.Config)) transport.Config {
		cfg := transport.Config{Secret: secret}
		change(&cfg)
		return cfg
	}
	for says, cfg := range map[string]transport.Config{
		"MaxMessage is -1":         good(func(c *transport.Config) { c.MaxMessage = -1 }),
		"MaxMessage is 1 bytes":    good(func(c *transport.Config) { c.MaxMessage = 1 }),
		"MaxQueue is -1":           good(func(c *transport.Config) { c.MaxQueue = -1 }),
		"a message of 1000":        good(func(c *transport.Config) { c.MaxQueue, c.MaxMessage = 999, 1000 }),
		"Heartbeat is -1":          good(func(c *transport.Config) { c.Heartbeat = -1 }),
		"Heartbeat is 1ns":         good(func(c *transport.Config) { c.Heartbeat = 1 }),
		"Heartbeat is 2562047h":    good(func(c *transport.Config) { c.Heartbeat = math.MaxInt64 }),
		"Heartbeat is 1281023h":    good(func(c *transport.Config) { c.Heartbeat = math.MaxInt64 / 2 }),
		"MaxArrival is 2562047h":   good(func(c *transport.Config) { c.MaxArrival = math.MaxInt64 }),
		"MaxConns is negative":     good(func(c *transport.Config) { c.MaxConns = -1 }),
		"MaxHellos is negative":    good(func(c *transport.Config) { c.MaxHellos = -1 }),
		"Config needs a Secret":    {},
		"has 15 bytes":             {Secret: secret[:15]},
		"it can be one of the two": {Secret: secret, Insecure: true},
	} {
		_, err := transport.Listen("tcp", "127.0.0.1:0", cfg)
		assert.ErrorContains(t, err, says)
	}
	_, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: secret, MaxMessage: 1, Heartbeat: -1})
	require.ErrorContains(t, err, "MaxMessage")
	require.ErrorContains(t, err, "Heartbeat", "all of them are said at once")
	_, err = transport.Listen("tcp", ":0", transport.Config{Secret: secret})
	require.ErrorContains(t, err, "Advertise")
	_, err = transport.Listen("udp", "127.0.0.1:0", transport.Config{Secret: secret})
	require.ErrorContains(t, err, "none of tcp")
	_, err = transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: secret, Advertise: "a#b"})
	require.ErrorContains(t, err, "not the name of a node")
	long := strings.Repeat("x", 1<<20)
	for says, listen := range map[string]func() (transport.Transport, error){
		"none of tcp": func() (transport.Transport, error) {
			return transport.Listen(long, ":0", transport.Config{Secret: secret})
		},
		"has 1048576 bytes": func() (transport.Transport, error) {
			return transport.Listen("tcp", long, transport.Config{Secret: secret})
		},
		"the most is 512": func() (transport.Transport, error) { return transport.Listen("unix", long, transport.Config{}) },
		"the name of a node": func() (transport.Transport, error) {
			return transport.Listen("tcp", ":0", transport.Config{Secret: secret, Advertise: long})
		},
	} {
		_, err := listen()
		require.ErrorContains(t, err, says)
		require.Less(t, len(err.Error()), 700)
	}
	tr, err := transport.Listen("tcp", ":0", transport.Config{Secret: secret, Advertise: "example.org:7"})
	require.NoError(t, err)
	assert.Equal(t, "tcp:example.org:7", tr.Node())
	require.NoError(t, tr.Close())
	require.ErrorIs(t, tr.Serve(nil), transport.ErrUnreachable)
}

func TestAMessageAsLongAsALengthCanSayIsTheLimit(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("an int cannot be longer")
	}
	most := uint64(math.MaxUint32)
	for n, ok := range map[uint64]bool{most: true, most + 1: false} {
		tr, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: secret, MaxMessage: int(n)})
		if !ok {
			assert.ErrorContains(t, err, "it must be from 512 to 4294967295")
			continue
		}
		require.NoError(t, err)
		require.NoError(t, tr.Close())
	}
}

func TestAQueueIsNeverShorterThanAMessage(t *testing.T) {
	for _, cfg := range []transport.Config{{MaxQueue: 1 << 20}, {MaxMessage: 100 << 20}} {
		a, _ := listen(t, cfg)
		b, in := listen(t, cfg)
		require.NoError(t, a.Send(b.Node(), &transport.Message{Body: string(make([]byte, 100_000))}))
		<-in
	}
}

func TestASocketThatIsAFileNeedsNoSecretAndIsForItsUserOnly(t *testing.T) {
	path := t.TempDir() + "/socket"
	tr, err := transport.Listen("unix", path, transport.Config{})
	require.NoError(t, err)
	defer tr.Close()
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
	for _, address := range []string{"@golda-" + strconv.FormatInt(time.Now().UnixNano(), 36), "\x00golda", ""} {
		_, err = transport.Listen("unix", address, transport.Config{})
		assert.ErrorContains(t, err, "needs a Secret", "no permissions of a file protect it")
	}
}
