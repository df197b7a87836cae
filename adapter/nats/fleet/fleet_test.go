package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// childEnv makes this program a process of a fleet: it has the URL of the server and the name of the process.
const childEnv, nameEnv = "GOLDA_FLEET_URL", "GOLDA_FLEET_NAME"

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		if err := child(url, os.Getenv(nameEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// A stream that a server makes while it shuts down leaves these behind: see package nats.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// named has the options of processes that are lost after 600 ms, but not given up by a snapshot before.
func named(name string) fleet.Options {
	return fleet.Options{Name: name, Every: 200 * time.Millisecond, Wait: time.Minute}
}

var beats = named("")

// serve runs a server for the test.
func serve(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() { halt(s) })
	return s
}

func halt(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(context.Background(), url, natsgo.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, conn.Close(ctx))
	})
	return conn
}

// working returns a pipeline that is fed by an inlet: work takes a while for each number, count nothing.
func working(conn *nats.Conn, name string, each time.Duration) (*pipeline.Pipeline, *nats.Inlet[int], error) {
	in, err := nats.NewInlet(context.Background(), conn, "numbers", nats.Options[int]{AckWait: time.Second, MaxInFlight: 32})
	if err != nil {
		return nil, nil, err
	}
	work := stage.Map("work", func(_ context.Context, n int) (int, error) {
		time.Sleep(each)
		return n, nil
	}, stage.Workers(4, 4))
	count := stage.Sink("count", func(context.Context, int) error { return nil }, stage.Workers(2, 2))
	p, err := pipeline.New(name, work, count, work.To(count), pipeline.Feed("numbers", work, in.Feed), quiet)
	return p, in, err
}

// start starts a process of a pipeline within the test, which leaves at its end.
func start(t testing.TB, conn *nats.Conn, name string, o fleet.Options) (*fleet.Fleet, *nats.Inlet[int]) {
	t.Helper()
	p, in, err := working(conn, name, time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	f, err := fleet.Join(t.Context(), conn, p, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Stop(context.Background()))
		if err := f.Leave(context.Background()); !errors.Is(err, nats.ErrAway) { // a test has stopped the server
			assert.NoError(t, err)
		}
	})
	return f, in
}

func lawOf(target time.Duration) policy.Backlog { return policy.Backlog{Target: target} }

// seen is what a process sees.
type seen struct {
	States   map[string]fleet.State
	Inlets   []fleet.Inlet
	Text     string
	Balanced bool
	Err      string
}

// child is a process of a fleet: it writes what it sees for each line that it reads, and leaves at the end of its input.
func child(url, name string) (err error) {
	ctx := context.Background()
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	p, _, err := working(conn, "shop", 5*time.Millisecond)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	o := named(name)
	o.Wait = time.Second
	f, err := fleet.Join(ctx, conn, p, o)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s, err := f.Snapshot(ctx)
		see := seen{States: states(s), Inlets: s.Inlets, Text: s.String() + s.Law(), Balanced: s.Balanced()}
		if err != nil {
			see.Err = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(see); err != nil {
			return err
		}
	}
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if err := f.Leave(ctx); err != nil {
		return err
	}
	return conn.Close(ctx)
}

func states(s fleet.Snapshot) map[string]fleet.State {
	all := map[string]fleet.State{}
	for _, p := range s.Processes {
		all[p.Name] = p.State
	}
	return all
}

// process is a process of the operating system.
type process struct {
	*exec.Cmd

	in  io.WriteCloser
	out *bufio.Scanner
}

func spawn(t *testing.T, url, name string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+url, nameEnv+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	p := &process{cmd, in, lines}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// sees returns what the process sees.
func (p *process) sees(t *testing.T) (s seen) {
	t.Helper()
	_, err := io.WriteString(p.in, "?\n")
	require.NoError(t, err)
	require.True(t, p.out.Scan(), "the process has ended")
	require.NoError(t, json.Unmarshal(p.out.Bytes(), &s))
	return s
}

// until waits until what a process sees is so.
func (p *process) until(t *testing.T, what string, so func(seen) bool) (s seen) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s = p.sees(t); so(s) {
			return s
		}
		require.True(t, time.Now().Before(end), "%s: %+v", what, s)
	}
}

func all(want map[string]fleet.State) func(seen) bool {
	return func(s seen) bool { return fmt.Sprint(s.States) == fmt.Sprint(want) }
}

func TestEachOfThreeProcessesSeesAllOfThem(t *testing.T) {
	url := serve(t).ClientURL()
	conn := connect(t, url)
	in, err := nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{AckWait: time.Second, MaxInFlight: 32})
	require.NoError(t, err)
	a, b, c := spawn(t, url, "a"), spawn(t, url, "b"), spawn(t, url, "c")
	alive := map[string]fleet.State{"a": fleet.Alive, "b": fleet.Alive, "c": fleet.Alive}
	for _, p := range []*process{a, b, c} {
		p.until(t, "all are seen", all(alive))
	}
	published := 0
	publish := func(n int) {
		for range n {
			require.NoError(t, in.Publish(t.Context(), strconv.Itoa(published), published))
			published++
		}
	}
	publish(300)

	// One is killed in the middle of its work.
	require.NoError(t, b.Process.Kill())
	for _, p := range []*process{a, c} {
		p.until(t, "b is lost", all(map[string]fleet.State{"a": fleet.Alive, "b": fleet.Lost, "c": fleet.Alive}))
	}
	publish(100)
	done := func(s seen) bool {
		return len(s.Inlets) == 1 && s.Inlets[0].Done() == uint64(published) && s.Inlets[0].Pending == 0
	}
	s := a.until(t, "the others do its work", func(s seen) bool { return done(s) && s.Inlets[0].Processes == 2 })
	require.True(t, s.Balanced, s.Text)
	require.EqualValues(t, 400, s.Inlets[0].Published)
	require.LessOrEqual(t, s.Inlets[0].Acknowledged, s.Inlets[0].Done()+s.Inlets[0].Redeliveries, s.Text)

	// One stands still, and goes on.
	stopProcess(t, c.Process)
	a.until(t, "c is lost", all(map[string]fleet.State{"a": fleet.Alive, "b": fleet.Lost, "c": fleet.Lost}))
	continueProcess(t, c.Process)
	a.until(t, "c is back", all(map[string]fleet.State{"a": fleet.Alive, "b": fleet.Lost, "c": fleet.Alive}))
	c.until(t, "c does not take the others for lost", all(map[string]fleet.State{"a": fleet.Alive, "b": fleet.Lost, "c": fleet.Alive}))

	// One is started again under the old name, one leaves.
	spawn(t, url, "b").until(t, "b is back", all(alive))
	require.NoError(t, c.in.Close())
	require.NoError(t, c.Wait())
	a.until(t, "c has left", all(map[string]fleet.State{"a": fleet.Alive, "b": fleet.Alive, "c": fleet.Left}))

	publish(100)
	s = a.until(t, "all is done", done)
	require.True(t, s.Balanced, s.Text)
	require.Empty(t, s.Err)
	t.Log("\n" + s.Text)

	// A process that was not there knows what the others know.
	f, err := fleet.Observe(t.Context(), conn, "shop", beats)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Leave(context.Background())) }()
	snapshot, err := f.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]fleet.State{"a": fleet.Alive, "b": fleet.Alive, "c": fleet.Left}, states(snapshot))
	require.Equal(t, []string{"count", "work"}, snapshot.Processes[0].Stages)
}

func TestAPipelineOfAnotherNameIsNotMixedIn(t *testing.T) {
	url := serve(t).ClientURL()
	one, _ := start(t, connect(t, url), "shop", named("one"))
	other, _ := start(t, connect(t, url), "shop.*", named("other"))
	for f, name := range map[*fleet.Fleet]string{one: "one", other: "other"} {
		s, err := f.Snapshot(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]fleet.State{name: fleet.Alive}, states(s))
	}
}

func TestAnObserverOfAPipelineThatDoesNotRunSeesNothing(t *testing.T) {
	f, err := fleet.Observe(t.Context(), connect(t, serve(t).ClientURL()), "shop", beats)
	require.NoError(t, err)
	s, err := f.Snapshot(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Processes)
	require.True(t, s.Balanced())
	require.NoError(t, f.Leave(t.Context()))
	_, err = f.Snapshot(t.Context())
	require.EqualError(t, err, `fleet "shop": the process has left it`)
}

// An observer that publishes knows the inlet before any process is there: so an autoscaler can start the first one.
func TestAnObserverWantsTheFirstProcess(t *testing.T) {
	conn := connect(t, serve(t).ClientURL())
	numbers, err := nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{})
	require.NoError(t, err)
	f, err := fleet.Observe(t.Context(), conn, "shop", beats)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Leave(t.Context())) }()
	e := fleet.NewExporter(f)
	for n, want := range []string{`"wanted_processes":0`, `"wanted_processes":1`} {
		require.Eventually(t, func() bool {
			answer := get(e)
			return answer.Code == http.StatusOK && strings.Contains(answer.Body.String(), want)
		}, time.Minute, 10*time.Millisecond, want)
		require.NoError(t, numbers.Publish(t.Context(), "", n))
	}
}

func TestAnExporterIsOnlyRead(t *testing.T) {
	f, _ := start(t, connect(t, serve(t).ClientURL()), "shop", named("one"))
	e := fleet.NewExporter(f)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, httptest.NewRequest(method, "/scaling", nil))
		require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
		require.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
	}
}

func TestAServerThatIsAwayIsNamedAtOnce(t *testing.T) {
	s := serve(t)
	url := s.ClientURL()
	conn := connect(t, url)
	f, _ := start(t, conn, "shop", named("one"))
	_, err := f.Snapshot(t.Context())
	require.NoError(t, err)
	halt(s)
	require.Eventually(t, func() bool { return !conn.JetStream().Conn().IsConnected() }, time.Minute, time.Millisecond)
	begin := time.Now()
	_, err = f.Snapshot(t.Context())
	require.ErrorIs(t, err, nats.ErrAway)
	require.ErrorContains(t, err, url)
	require.Less(t, time.Since(begin), 30*time.Second)
	require.ErrorIs(t, f.Leave(t.Context()), nats.ErrAway)
	require.ErrorIs(t, f.Leave(t.Context()), nats.ErrAway, "the second call returns the same")
}

func TestAConnThatIsClosedEndsAFleetThatDidNotLeave(t *testing.T) {
	conn, err := nats.Connect(t.Context(), serve(t).ClientURL())
	require.NoError(t, err)
	f, err := fleet.Observe(t.Context(), conn, "shop", beats)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	_, err = f.Snapshot(t.Context())
	require.ErrorIs(t, err, nats.ErrAway)
	require.NoError(t, f.Leave(t.Context()))
	_, err = fleet.Observe(t.Context(), conn, "shop", beats)
	require.ErrorIs(t, err, nats.ErrAway)
}

func TestMembersOfOtherVersionsAreShownAsFarAsTheyAreUnderstood(t *testing.T) {
	url := serve(t).ClientURL()
	f, _ := start(t, connect(t, url), "shop", named("this"))
	raw, err := natsgo.Connect(url)
	require.NoError(t, err)
	defer raw.Close()
	answers := []string{
		`{"format":1,"id":"1","name":"without a snapshot"}`,
		`{"format":1,"id":"2","name":"older","snapshot":{"Pipeline":"shop","Stages":[{"Name":"work","Workers":{"Live":3}}]}}`,
		`{"format":2,"id":"3","name":"newer","snapshot":{"pipeline":["shop"]},"units":[{"name":"work","workers":1e300}]}`,
		`{"format":1,"id":"4","name":"other types","snapshot":{"Stages":"none"}}`,
		`{"format":1,"id":"5","name":"further fields","colour":"red","snapshot":{"Pipeline":"shop","Colour":[1]}}`,
		`{"format":1,"id":"6","name":"nonsense","every_ns":-5,"inlets":[{"name":"a b","rate":-1}],"snapshot":null}`,
		`{"id":""}`, `[]`, `not JSON`, ``,
	}
	_, err = raw.Subscribe("golda.fleet.shop.ask", func(m *natsgo.Msg) {
		for _, answer := range answers {
			_ = m.Respond([]byte(answer))
		}
	})
	require.NoError(t, err)
	for _, text := range answers {
		require.NoError(t, raw.Publish("golda.fleet.shop.news", []byte(text)))
		require.NoError(t, raw.PublishRequest("golda.fleet.shop.ask", "nowhere", []byte(text)))
	}
	require.NoError(t, raw.Flush())
	var s fleet.Snapshot
	require.Eventually(t, func() bool {
		s, err = f.Snapshot(t.Context())
		return states(s)["nonsense"] == fleet.Alive
	}, time.Minute, time.Millisecond)
	require.ErrorContains(t, err, "a b", "the server does not know about the inlet of one, and says so")
	text := map[string]string{}
	for _, p := range s.Processes {
		text[p.Name] = fmt.Sprint(p.State, ", ", len(p.Snapshot.Stages), " stages, ", p.Err)
	}
	require.Equal(t, map[string]string{
		"this":               "alive, 2 stages, <nil>",
		"without a snapshot": "alive, 0 stages, it has sent no snapshot",
		"older":              "alive, 1 stages, <nil>",
		"newer":              "alive, 0 stages, its format is 2, and this process knows up to 1",
		"other types":        "alive, 0 stages, json: cannot unmarshal string into Go struct field state.plain.Stages of type []stage.Snapshot",
		"further fields":     "alive, 0 stages, <nil>",
		"nonsense":           "alive, 0 stages, <nil>",
	}, text)
	require.Len(t, s.Inlets, 1, "the inlet that is there is known all the same")
	_ = s.String()
}

func TestOptionsOfAFleetAreChecked(t *testing.T) {
	conn := connect(t, serve(t).ClientURL())
	p, _, err := working(conn, "shop", 0)
	require.NoError(t, err)
	_, err = fleet.Join(t.Context(), conn, p, fleet.Options{Every: time.Millisecond, Wait: -1, Law: lawOf(-1)})
	require.EqualError(t, err, `fleet "shop": Every is 1ms, and must be from 10ms to 1h0m0s; use 0 for 2s`+"\n"+
		"Wait is -1ns; use 0 for 1s\nLaw: policy: backlog: Target -1ns is negative")
	_, err = fleet.Observe(t.Context(), conn, "", fleet.Options{})
	require.EqualError(t, err, `fleet "": the pipeline has no name that can be shown`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fleet.Join(ended, conn, p, fleet.Options{})
	require.ErrorIs(t, err, context.Canceled)
	for name, call := range map[string]func(){
		"fleet: the Conn is nil":               func() { _, _ = fleet.Observe(t.Context(), nil, "shop", fleet.Options{}) },
		"fleet: Join: the pipeline is nil":     func() { _, _ = fleet.Join(t.Context(), conn, nil, fleet.Options{}) },
		"fleet: Join: nil context":             func() { _, _ = fleet.Join(nil, conn, p, fleet.Options{}) },         //nolint:staticcheck // the point
		"fleet: Observe: nil context":          func() { _, _ = fleet.Observe(nil, conn, "shop", fleet.Options{}) }, //nolint:staticcheck // the point
		"fleet: NewExporter: the Fleet is nil": func() { fleet.NewExporter(nil) },
	} {
		require.PanicsWithValue(t, name, call)
	}
}

func TestASnapshotThatIsGivenUpSaysWhy(t *testing.T) {
	f, _ := start(t, connect(t, serve(t).ClientURL()), "shop", named("one"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := f.Snapshot(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
