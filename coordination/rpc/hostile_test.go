package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/stage"
)

// The kinds of messages that a stranger sends.
const (
	coordinate = 7
	request    = 1
	watch      = 4
)

// install is the message of a synchronizer that no program has made.
func install(from, process string, methods ...string) *transport.Message {
	parts := ""
	for i, m := range methods {
		if i > 0 {
			parts += ","
		}
		name, _ := json.Marshal(m)
		parts += string(name) + `:{"Asked":true}`
	}
	return &transport.Message{Kind: coordinate, Process: process, Body: transport.Encoded(fmt.Sprintf(
		`{"Kind":1,"From":%q,"To":"n#%s","Epoch":1,"ID":{},"Methods":{%s},"Incarnation":5}`, from, process, parts))}
}

// stranger returns a node, and a transport that is connected to it and serves nothing.
func stranger(t *testing.T, hub *transport.Hub, cfg rpc.Config) (*rpc.Node, transport.Transport) {
	t.Helper()
	cfg.Transport = hub.Join("n")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n, err := rpc.NewNode(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	s := hub.Join("stranger")
	require.NoError(t, s.Serve(func(string, *transport.Message) {}))
	return n, s
}

// If it were believed, the node would connect to the third node, and hold the function back.
func TestASynchronizerIsBelievedByItsOwnNodeOnly(t *testing.T) {
	var hub transport.Hub
	var log logged
	n, s := stranger(t, &hub, rpc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	third := hub.Join("third")
	got := make(chan *transport.Message, 100)
	require.NoError(t, third.Serve(func(_ string, m *transport.Message) { got <- m }))
	a := spawnCounting(t, n, "A", "use")
	for range 10 {
		require.NoError(t, s.Send("n", install("third#S", "A", "use")))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := rpc.At[none, none](a, "use").Call(coroutine.Blocking(ctx), none{})
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Contains(t, log.String(), `the last one: its sender is a process of a third node" node=n from=stranger dropped=1 sender=third#S`)

	require.NoError(t, s.Send("n", install("stranger#S", "A", "use"))) // this one is
	call := rpc.At[none, none](a, "use").Future(t.Context(), none{})
	assert.Equal(t, 1, counted(t, a).Pending)
	assert.False(t, call.Done())
}

// spawnHolding starts a process with a function that is served until the channel is closed.
func spawnHolding(t *testing.T, n *rpc.Node) (release chan none) {
	t.Helper()
	release = make(chan none)
	spawn(t, n, "A", func(p *rpc.Process) {
		rpc.Func(p, "hold", func(c coroutine.Context, _ string) (none, error) {
			_, err := coroutine.Await(c, receive(release))
			return none{}, err
		})
	})
	return release
}

func TestAsManyRequestsOfANodeAreUnderWayAsMaxRequests(t *testing.T) {
	for name, nodes := range map[string]func(t *testing.T, cfg rpc.Config) (n, m *rpc.Node){
		"of one program": func(t *testing.T, cfg rpc.Config) (_, _ *rpc.Node) {
			t.Helper()
			var hub transport.Hub
			n, _ := stranger(t, &hub, cfg)
			return n, nodeOn(t, hub.Join("m"))
		},
		"with sockets": func(t *testing.T, cfg rpc.Config) (_, _ *rpc.Node) {
			t.Helper()
			cfg.Transport = listen(t)
			n := must(rpc.NewNode(cfg))
			t.Cleanup(func() { require.NoError(t, n.Close()) })
			return n, nodeOn(t, listen(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t, rpc.Config{MaxRequests: 3})
			release := spawnHolding(t, n)
			hold := rpc.At[string, none](m.Remote(n.Name(), "A"), "hold")
			var calls []*rpc.Future[none]
			for range 3 {
				calls = append(calls, hold.Future(t.Context(), ""))
			}
			_, err := hold.Call(blocking(t), "")
			require.ErrorIs(t, err, stage.ErrFull)
			require.ErrorContains(t, err, "Config.MaxRequests is 3")
			_, overloaded := stage.Overloaded(err)
			assert.True(t, overloaded)
			close(release)
			for _, f := range calls {
				must(f.Wait(blocking(t)))
			}
			for range 10 { // each gives its place back
				must(hold.Call(blocking(t), ""))
			}
		})
	}
}

func TestRequestsThatWantNoReplyCountToo(t *testing.T) {
	var hub transport.Hub
	n, s := stranger(t, &hub, rpc.Config{MaxRequests: 2})
	release := spawnHolding(t, n)
	send := func() {
		require.NoError(t, s.Send("n", &transport.Message{Kind: request, Process: "A", Method: "hold", Body: ""}))
	}
	for range 1000 {
		send()
	}
	assert.Equal(t, 2, rpc.Load(n, "stranger"))
	close(release)
	becomes(t, 0, func() int32 { return int32(rpc.Load(n, "stranger")) })
}

func TestANumberThatIsInUseIsNotTakenByAnotherRequest(t *testing.T) {
	var hub transport.Hub
	n, s := stranger(t, &hub, rpc.Config{})
	release := spawnHolding(t, n)
	for range 10 {
		require.NoError(t, s.Send("n", &transport.Message{Kind: request, Call: 7, Process: "A", Method: "hold", Body: ""}))
	}
	assert.Equal(t, 1, rpc.Load(n, "stranger"))
	close(release)
	becomes(t, 0, func() int32 { return int32(rpc.Load(n, "stranger")) })
}

func TestRequestsOfANodeHaveAtMostMaxRequestBytes(t *testing.T) {
	n := must(rpc.NewNode(rpc.Config{Transport: listen(t), MaxRequestBytes: 1000}))
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	release := spawnHolding(t, n)
	m := nodeOn(t, listen(t))
	hold := rpc.At[string, none](m.Remote(n.Name(), "A"), "hold")
	bytes := func(n int) string { return strings.Repeat("x", n-2) } // with its quotes
	first := hold.Future(t.Context(), bytes(600))
	second := hold.Future(t.Context(), bytes(400))
	_, err := hold.Call(blocking(t), bytes(2))
	require.ErrorIs(t, err, stage.ErrFull)
	require.ErrorContains(t, err, "Config.MaxRequestBytes is 1000")
	close(release)
	must(first.Wait(blocking(t)))
	must(second.Wait(blocking(t)))
	must(hold.Call(blocking(t), bytes(5000))) // there is no other
}

func TestRequestsThatEndWithTheirProcessGiveTheirPlacesBack(t *testing.T) {
	var hub transport.Hub
	n, s := stranger(t, &hub, rpc.Config{MaxRequests: 2})
	for i := range 3 {
		spawnHolding(t, n)
		for number := range 3 {
			require.NoError(t, s.Send("n", &transport.Message{
				Kind: request, Call: uint64(1 + 10*i + number), Process: "A", Method: "hold", Body: "",
			}))
		}
		assert.Equal(t, 2, rpc.Load(n, "stranger"))
		require.NoError(t, n.Stop("A"))
		assert.Zero(t, rpc.Load(n, "stranger"))
	}
	require.NoError(t, s.Send("n", &transport.Message{Kind: request, Call: 99, Process: "A", Method: "hold", Body: ""}))
	assert.Zero(t, rpc.Load(n, "stranger"), "there is no such process")
}

func TestANodeHasAtMostMaxWatches(t *testing.T) {
	var hub transport.Hub
	n, s := stranger(t, &hub, rpc.Config{MaxWatches: 2})
	spawnHolding(t, n)
	m := hub.Join("m")
	ended := make(chan uint64, 10)
	require.NoError(t, m.Serve(func(_ string, m *transport.Message) { ended <- m.Call }))
	for number := range uint64(3) {
		require.NoError(t, m.Send("n", &transport.Message{Kind: watch, Call: 1 + number, Process: "A"}))
	}
	assert.Equal(t, uint64(3), <-ended)
	assert.Empty(t, ended)
	require.NoError(t, s.Send("n", &transport.Message{Kind: watch, Call: 1, Process: "A"}))
	require.NoError(t, n.Stop("A"))
	assert.ElementsMatch(t, []uint64{1, 2}, []uint64{<-ended, <-ended})
}

func TestRulesOfANodeAreKeptForAtMostMaxRulesFunctions(t *testing.T) {
	var hub transport.Hub
	n, s := stranger(t, &hub, rpc.Config{MaxRules: 3})
	m := nodeOn(t, hub.Join("m"))
	atMost := func(name string, methods ...string) error {
		_, err := m.Synchronize(t.Context(), name, func(s *synchronizer.Synchronizer) {
			for _, method := range methods {
				s.AtMost(1, synchronizer.Event{Of: m.Remote("n", "A"), Method: method})
			}
		})
		return err
	}
	spawnCounting(t, n, "A", "use", "other", "third")
	require.NoError(t, atMost("S", "use", "other", "third"))
	err := atMost("T", "use")
	require.ErrorContains(t, err, `the rules for "n#A" were refused: node "n" would keep rules for 4 functions: Config.MaxRules is 3`)
	require.NoError(t, s.Send("n", install("stranger#S", "nowhere", "x", "y", "z")), "each node has its own")
	for i := range 100 {
		require.NoError(t, s.Send("n", install("stranger#S", fmt.Sprint("nowhere", i), "x")))
	}
	require.NoError(t, s.Send("n", install("stranger#T", "B", strings.Repeat("x", 1025))))
	assert.Equal(t, 6, rpc.KeptRules(n))
	require.NoError(t, m.Stop("S"))
	require.NoError(t, atMost("T", "use"), "there is a place again")
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, cfg := range []rpc.Config{{MaxRequests: -1}, {MaxRequestBytes: -1}, {MaxWatches: -1}, {MaxRules: -1}} {
		_, err := rpc.NewNode(cfg)
		require.ErrorContains(t, err, "negative")
		assert.False(t, errors.Is(err, rpc.ErrUnreachable))
	}
}

// A node that calls functions which do not exist, with names of a megabyte, costs a line of the log.
func TestTheLogOfUnknownFunctionsIsBounded(t *testing.T) {
	began := time.Now()
	var hub transport.Hub
	var log logged
	n, s := stranger(t, &hub, rpc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), MaxRules: 1 << 20})
	a := spawnCounting(t, n, "A", "use")
	long := strings.Repeat("x", 1<<20)
	for range 50 {
		require.NoError(t, s.Send("n", &transport.Message{Kind: request, Process: "A", Method: long, Body: ""}))
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("unknown", i)
	}
	for range 50 {
		require.NoError(t, s.Send("n", install("stranger#S", "A", many...)))
	}
	require.NoError(t, s.Send("n", install("stranger#S", "A", "use"))) // it is the last one
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "unknown0") && counted(t, a).Pending == 0 }, time.Minute, time.Millisecond)
	require.Less(t, len(log.String()), 16<<10)
	most := 2 + 2*int(time.Since(began)/(10*time.Second)) // a slow machine has a line more each ten seconds
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), most, log.String())
	require.Contains(t, log.String(), "no function serves a request")
}

func TestAFunctionForANilStageIsRefused(t *testing.T) {
	n := nodeOn(t, new(transport.Hub).Join("n"))
	_, err := n.Spawn(t.Context(), "A", func(p *rpc.Process) error {
		require.PanicsWithValue(t, `rpc: process "A": the stage of function "f" is nil`, func() { rpc.Stage[int, int](p, "f", nil) })
		return nil
	})
	require.NoError(t, err)
}
