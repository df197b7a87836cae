package transport_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/transport"
)

func TestASocketSurvivesWhatIsNoNode(t *testing.T) {
	b, in := listen(t, transport.Config{MaxMessage: 1000})
	a, _ := listen(t, transport.Config{})
	text := func(change func(i *introduction)) string {
		i := introduction{Protocol: "golda/2", Node: aName, To: b.Node(), Key: nonce(), Nonce: nonce()}
		change(&i)
		data, err := json.Marshal(i)
		require.NoError(t, err)
		return frame(string(data))
	}
	for name, bytes := range map[string]string{
		"a web browser":                     "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a hello that is no JSON":           frame("hello"),
		"a hello of 4 GiB":                  "\xff\xff\xff\xff",
		"a hello of one byte too many":      string(binary.BigEndian.AppendUint32(nil, 4097)),
		"an empty hello":                    frame(""),
		"the protocol before":               frame(`{"protocol":"golda/1","node":"tcp:127.0.0.1:1","birth":7}`),
		"another protocol":                  text(func(i *introduction) { i.Protocol = "golda/9" }),
		"no name":                           text(func(i *introduction) { i.Node = "" }),
		"the name of the node itself":       text(func(i *introduction) { i.Node = b.Node() }),
		"a name with an address":            text(func(i *introduction) { i.Node += "#process" }),
		"a name with a line break":          text(func(i *introduction) { i.Node += "\n" }),
		"a name of another network":         text(func(i *introduction) { i.Node = "unix:/run/socket" }),
		"a name that is too long":           text(func(i *introduction) { i.Node += strings.Repeat("1", 500) }),
		"a call of another node":            text(func(i *introduction) { i.To = aName }),
		"a key that is too short":           text(func(i *introduction) { i.Key = i.Key[:31] }),
		"a nonce that is too short":         text(func(i *introduction) { i.Nonce = i.Nonce[:31] }),
		"a proof before its time":           text(func(i *introduction) { i.MAC = nonce() }) + text(func(i *introduction) { i.MAC = nonce() }),
		"a proof of another length":         text(func(*introduction) {}) + frame(`{"protocol":"golda/2","mac":"AA==","signature":"AA=="}`),
		"a message instead of a proof":      text(func(*introduction) {}) + frame(aMessage),
		"a refusal, which is for the other": text(func(i *introduction) { i.Refused = "taken" }),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, dial(t, b), nil)
			s.write(bytes)
			assert.True(t, s.isClosed())
		})
	}
	for name, bytes := range map[string]string{
		"a message that is none":      frame("x"),
		"a message of 4 GiB":          "\xff\xff\xff\xff",
		"a message that is too large": string(binary.BigEndian.AppendUint32(nil, 1001)) + "the rest does not matter",
		"a part that does not exist":  frame("\x01\x09\x00\x00\x00\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			s := approach(t, b, aName, secret).enter()
			s.write(bytes)
			assert.True(t, s.isClosed())
		})
	}
	require.NoError(t, a.Send(b.Node(), &transport.Message{Kind: 3}))
	assert.Equal(t, uint8(3), (<-in).Kind)
	assert.Empty(t, in)
}

func TestAMessageAsLongAsTheLimitArrives(t *testing.T) {
	b, in := listen(t, transport.Config{MaxMessage: 1000})
	s := approach(t, b, aName, secret).enter()
	s.write(frame(aMessage[:1] + "\x01" + aMessage[2:] + strings.Repeat("1", 1000-len(aMessage))))
	assert.Len(t, (<-in).Body, 1000-len(aMessage))
}

func TestANodeWithoutTheSecretIsRefusedOnBothSides(t *testing.T) {
	for name, with := range map[string]transport.Config{
		"another secret": {Secret: bytes.Repeat([]byte("x"), 16)},
		"no secret":      {Insecure: true, Peers: anyPeer},
	} {
		t.Run(name, func(t *testing.T) {
			with.Logger = slog.New(slog.DiscardHandler)
			a, err := transport.Listen("tcp", "127.0.0.1:0", with)
			require.NoError(t, err)
			defer a.Close()
			toA := make(chan *transport.Message, 10)
			require.NoError(t, a.Serve(func(_ string, m *transport.Message) { toA <- m }))
			b, toB := listen(t, transport.Config{})
			for from, to := range map[transport.Transport]transport.Transport{a: b, b: a} {
				lost := make(chan error, 1)
				from.Watch(to.Node(), func(reason error) { lost <- reason })
				_ = from.Send(to.Node(), &transport.Message{})
				reason := <-lost
				require.ErrorIs(t, reason, transport.ErrUnreachable)
				assert.ErrorContains(t, reason, "do not have the same Config.Secret")
			}
			assert.Empty(t, toA)
			assert.Empty(t, toB)
		})
	}
}

// A stranger without the secret uses the proofs that nodes give.
func TestAProofIsOfNoUseAnywhereElse(t *testing.T) {
	b, in := listen(t, transport.Config{})
	t.Run("sent back", func(t *testing.T) { // the stranger is called, and calls with what it hears
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		lost := make(chan error, 1)
		b.Watch("tcp:"+l.Addr().String(), func(reason error) { lost <- reason })
		conn, err := l.Accept()
		require.NoError(t, err)
		called := newStranger(t, conn, nil)
		hers := called.hear()
		called.say(introduction{Protocol: "golda/2", Node: "tcp:" + l.Addr().String(), Key: called.public(), Nonce: nonce()})
		proof := called.hear()
		assert.NotEmpty(t, proof.MAC)
		called.say(proof) // of the other side
		require.ErrorContains(t, <-lost, "do not have the same Config.Secret")

		caller := approach(t, b, "tcp:"+l.Addr().String(), nil)
		caller.first.Nonce = hers.Nonce
		caller.say(caller.first)
		caller.hear()
		caller.say(proof)
		assert.Equal(t, "secret", caller.hear().Refused)
	})
	t.Run("again", func(t *testing.T) {
		once := approach(t, b, aName, secret).enter()
		again := approach(t, b, aName, nil)
		again.first = once.first
		again.say(again.first)
		again.hear()
		again.say(once.proof("caller", once.first, once.other))
		assert.Equal(t, "secret", again.hear().Refused)
	})
	t.Run("passed on", func(t *testing.T) { // the stranger is called by a, and calls b as a
		a, _ := listen(t, transport.Config{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		a.Watch("tcp:"+l.Addr().String(), func(error) {})
		conn, err := l.Accept()
		require.NoError(t, err)
		between := newStranger(t, conn, nil)
		hello := between.hear()
		caller := approach(t, b, a.Node(), nil)
		caller.first.Key, caller.first.Nonce = hello.Key, hello.Nonce
		caller.say(caller.first)
		of := caller.hear()
		of.Node = "tcp:" + l.Addr().String() // otherwise a does not go on
		between.say(of)
		caller.say(between.hear())
		assert.Equal(t, "secret", caller.hear().Refused)
	})
	t.Run("with another name, key or nonce", func(t *testing.T) {
		for name, change := range map[string]func(i *introduction){
			"name":  func(i *introduction) { i.Node = "tcp:127.0.0.1:2" },
			"key":   func(i *introduction) { i.Key = nonce() },
			"nonce": func(i *introduction) { i.Nonce = nonce() },
		} {
			s := approach(t, b, aName, secret)
			s.say(s.first)
			s.other = s.hear()
			change(&s.first)
			s.say(s.proof("caller", s.first, s.other))
			assert.Equal(t, "secret", s.hear().Refused, name)
		}
	})
	assert.Empty(t, in)
}

func TestAKeyIsProvedAlsoWithTheSecret(t *testing.T) {
	b, _ := listen(t, transport.Config{})
	s := approach(t, b, aName, secret)
	s.first.Key = nonce() // of another program
	assert.Equal(t, "key", s.introduce().Refused)
}

func TestANameThatIsConnectedCannotBeTakenWithoutTheSecret(t *testing.T) {
	for name, open := range map[string]bool{"with a secret": false, "without a secret": true} {
		t.Run(name, func(t *testing.T) {
			cfg := transport.Config{Insecure: open, Peers: anyPeer}
			a, toA := listen(t, cfg)
			b, toB := listen(t, cfg)
			require.NoError(t, a.Send(b.Node(), &transport.Message{}))
			<-toB
			lost := make(chan error, 1)
			b.Watch(a.Node(), func(reason error) { lost <- reason })
			thief := approach(t, b, a.Node(), nil)
			refused := thief.introduce().Refused
			assert.Equal(t, map[bool]string{false: "secret", true: "taken"}[open], refused)
			assert.True(t, thief.isClosed())

			// It knows the key of the other program, which is no secret.
			spy := approach(t, a, aName, nil)
			spy.say(spy.first)
			thief = approach(t, b, a.Node(), nil)
			thief.first.Key = spy.hear().Key
			refused = thief.introduce().Refused
			assert.Equal(t, map[bool]string{false: "secret", true: "key"}[open], refused)

			require.NoError(t, b.Send(a.Node(), &transport.Message{Kind: 5}))
			assert.Equal(t, uint8(5), (<-toA).Kind, "it goes to the program that has the name")
			assert.Empty(t, lost)
			assert.Empty(t, toB)
		})
	}
}

func TestANodeWithTheNameOfAnotherProgramIsNew(t *testing.T) {
	t.Run("it has the secret", func(t *testing.T) {
		b, in := listen(t, transport.Config{})
		lost := make(chan error, 1)
		for i := range 2 {
			approach(t, b, aName, secret).enter().write(frame(aMessage))
			<-in
			if i == 0 {
				b.Watch(aName, func(reason error) { lost <- reason })
			}
		}
		assert.ErrorContains(t, <-lost, "replaced by another program")
	})
	t.Run("the other one has ended, and there is no secret", func(t *testing.T) {
		b, in := listen(t, transport.Config{Insecure: true})
		for range 5 {
			s := approach(t, b, aName, nil).enter()
			s.write(frame(aMessage))
			<-in
			require.NoError(t, s.conn.Close())
		}
	})
	t.Run("the same program connects anew", func(t *testing.T) {
		b, in := listen(t, transport.Config{Insecure: true})
		first := approach(t, b, aName, nil).enter()
		first.write(frame(aMessage))
		<-in
		lost := make(chan error, 1)
		b.Watch(aName, func(reason error) { lost <- reason })
		second := approach(t, b, aName, nil)
		second.key = first.key
		second.first.Key = first.first.Key
		second.enter().write(frame(aMessage))
		<-in
		assert.ErrorContains(t, <-lost, "connected anew")
		assert.True(t, first.isClosed())
	})
}

func TestOnlyNodesThatAreAllowedAreDialled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	target := "tcp:" + l.Addr().String()
	for name, c := range map[string]struct {
		cfg  transport.Config
		node string
		says string
	}{
		"insecure":            {transport.Config{Insecure: true}, target, "Config.Peers"},
		"not in Peers":        {transport.Config{Peers: func(node string) bool { return node != target }}, target, "Config.Peers"},
		"another network":     {transport.Config{}, "unix:" + t.TempDir() + "/socket", "not a node of this network"},
		"a kind of no stream": {transport.Config{}, "udp:" + l.Addr().String(), "not the name of a node"},
		"no name":             {transport.Config{}, "somewhere", "not the name of a node"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := listen(t, c.cfg)
			lost := make(chan error, 1)
			a.Watch(c.node, func(reason error) { lost <- reason })
			_ = a.Send(c.node, &transport.Message{})
			reason := <-lost
			require.ErrorIs(t, reason, transport.ErrUnreachable)
			assert.ErrorContains(t, reason, c.says)
		})
	}
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now()))
	_, err = l.Accept()
	assert.True(t, isTimeout(err), "there was no connection")
}

func TestAnInsecureNodeAnswersNodesThatItWouldNotDial(t *testing.T) {
	b, in := listen(t, transport.Config{Insecure: true})
	s := approach(t, b, aName, nil).enter()
	s.write(frame(aMessage))
	<-in
	require.NoError(t, b.Send(aName, &transport.Message{Kind: 9}))
	data, err := s.read()
	require.NoError(t, err)
	assert.Equal(t, byte(9), data[0])
}

func TestWhatHasBegunMustBeThereInTime(t *testing.T) {
	b, in := listen(t, transport.Config{Heartbeat: time.Minute, MaxArrival: 50 * time.Millisecond})
	trickle := func(s *stranger, data string) { // until it is closed
		s.t.Helper()
		go func() {
			for i := range data {
				if _, err := io.WriteString(s.conn, data[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		assert.True(s.t, s.isClosed())
	}
	for name, data := range map[string]string{
		"nothing":                       "",
		"three bytes of a length":       "\x00\x00\x01",
		"half of a hello":               frame(strings.Repeat("x", 4000))[:2000],
		"a hello that trickles":         frame(strings.Repeat("x", 4000)),
		"heartbeats instead of a hello": strings.Repeat("\x00", 4000),
	} {
		t.Run(name, func(t *testing.T) { trickle(newStranger(t, dial(t, b), nil), data) })
	}
	t.Run("a message that trickles", func(t *testing.T) {
		trickle(approach(t, b, aName, secret).enter(), frame(strings.Repeat("x", 100_000)))
	})
	t.Run("between messages there is no such limit", func(t *testing.T) {
		s := approach(t, b, aName, secret).enter()
		for range 3 {
			time.Sleep(60 * time.Millisecond)
			s.write(frame(aMessage))
			<-in
		}
	})
	t.Run("a node that was called and says nothing", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		lost := make(chan error, 1)
		b.Watch("tcp:"+l.Addr().String(), func(reason error) { lost <- reason })
		conn, err := l.Accept()
		require.NoError(t, err)
		defer conn.Close()
		assert.ErrorContains(t, <-lost, "Config.MaxArrival")
	})
	assert.Empty(t, in)
}

// Each of the strangers says that 16 MiB will follow, and sends nothing.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	b, in := listen(t, transport.Config{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all []*stranger
	for i := range 30 {
		s := approach(t, b, fmt.Sprint("tcp:127.0.0.1:", 1+i), secret).enter()
		s.write(frame(aMessage) + string(binary.BigEndian.AppendUint32(nil, 16<<20)) + "x")
		all = append(all, s)
		<-in
	}
	for _, s := range all { // the nodes have read it when they have read what follows
		s.write(strings.Repeat("x", 1000))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
}

func TestAtMostMaxConnsNodesAreConnected(t *testing.T) {
	b, in := listen(t, transport.Config{MaxConns: 2})
	one := approach(t, b, "tcp:127.0.0.1:1", secret).enter()
	approach(t, b, "tcp:127.0.0.1:2", secret).enter()
	assert.Equal(t, "full", approach(t, b, "tcp:127.0.0.1:3", secret).introduce().Refused)
	one.write(frame(aMessage))
	<-in
	gone := make(chan error, 1)
	b.Watch("tcp:127.0.0.1:1", func(reason error) { gone <- reason })
	require.NoError(t, one.conn.Close())
	<-gone
	require.Eventually(t, func() bool {
		return approach(t, b, "tcp:127.0.0.1:3", secret).introduce().Refused == ""
	}, 30*time.Second, time.Millisecond, "a place is free")
}

func TestTheOldestOfTooManyConnectionsWithoutAHelloGivesWay(t *testing.T) {
	b, in := listen(t, transport.Config{MaxHellos: 2, MaxArrival: time.Hour})
	first := approach(t, b, aName, secret)
	first.say(first.first)
	first.other = first.hear()
	second := approach(t, b, "tcp:127.0.0.1:2", secret)
	second.say(second.first)
	second.other = second.hear()
	third := approach(t, b, "tcp:127.0.0.1:3", secret).enter() // in the place of the first
	assert.True(t, first.isClosed())
	second.say(second.proof("caller", second.first, second.other))
	require.Empty(t, second.hear().Refused)
	for _, s := range []*stranger{second, third} {
		s.write(frame(aMessage))
		<-in
	}
}

// A flood of connections that say nothing does not keep nodes from connecting.
func TestNodesConnectBesideAFloodOfStrangers(t *testing.T) {
	b, in := listen(t, transport.Config{MaxHellos: 8})
	stop := make(chan struct{})
	var flood sync.WaitGroup
	defer flood.Wait()
	defer close(stop)
	address := strings.TrimPrefix(b.Node(), "tcp:")
	for range 2 {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if conn, err := net.Dial("tcp", address); err == nil {
					defer conn.Close()
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for range 5 {
		a, _ := listen(t, transport.Config{})
		arrived := false
		for !arrived {
			lost := make(chan error, 1)
			stop := a.Watch(b.Node(), func(reason error) { lost <- reason })
			_ = a.Send(b.Node(), &transport.Message{})
			select {
			case <-in:
				arrived = true
			case <-lost: // it was taken for one of the strangers
			}
			stop()
		}
	}
}

func TestRefusalsAreLoggedButNotEachOfThem(t *testing.T) {
	var log lines
	b, err := transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: secret, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, b.Serve(func(string, *transport.Message) {}))
	for range 20 {
		assert.Equal(t, "secret", approach(t, b, aName, []byte("no secret of these")).introduce().Refused)
	}
	require.Eventually(t, func() bool { return log.String() != "" }, 30*time.Second, time.Millisecond)
	assert.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	assert.Contains(t, log.String(), `"called itself"=tcp:127.0.0.1:1 reason="the two nodes do not have the same Config.Secret"`)
}

// lines is a log that goroutines write.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestANodeThatHasNothingToSendSendsHeartbeats(t *testing.T) {
	b, _ := listen(t, transport.Config{Heartbeat: time.Second})
	s := approach(t, b, aName, secret).enter()
	for range 2 {
		data, err := s.read()
		require.NoError(t, err)
		assert.Empty(t, data)
	}
}
