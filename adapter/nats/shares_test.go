package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// ask is a command of a tenant.
type ask struct {
	Tenant string
	N      int
}

// weights are the weights of tenants that have another one than 1.
type tenantWeights map[string]int

func (w tenantWeights) of(a ask) (string, int) { return a.Tenant, max(w[a.Tenant], 1) }

// fair are the options of an inlet that tenants share.
func fair(w tenantWeights, most int) nats.Options[ask] {
	return nats.Options[ask]{Fair: w.of, MaxInFlight: most, Memory: true}
}

// counter is a service that several processes have together. Its handlers wait until the test lets them go, one at a time.
type counter struct {
	permits chan struct{}
	over    chan struct{} // closed at the end of the test: all go

	mu      sync.Mutex
	handled map[string]int
	n       int
	order   []string // of the tenants, as their commands were handled
}

func newCounter() *counter {
	return &counter{permits: make(chan struct{}), over: make(chan struct{}), handled: map[string]int{}}
}

func (c *counter) handle(ctx context.Context, a ask) error {
	select {
	case <-c.permits:
	case <-c.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled[a.Tenant]++
	c.n++
	c.order = append(c.order, a.Tenant)
	return nil
}

// end lets all go.
func (c *counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.over:
	default:
		close(c.over)
	}
}

func (c *counter) of(tenant string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handled[tenant]
}

func (c *counter) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// let lets a number of commands go, and waits until they have been handled.
func (c *counter) let(t *testing.T, n int) {
	t.Helper()
	before := c.all()
	for range n {
		select {
		case c.permits <- struct{}{}:
		case <-time.After(2 * time.Minute):
			t.Fatal("no handler waits")
		}
	}
	require.Eventually(t, func() bool { return c.all() == before+n }, time.Minute, time.Millisecond)
}

// process starts a process of the service, with its own connection.
func (c *counter) process(t *testing.T, conn *nats.Conn, o nats.Options[ask], opts ...stage.Option) (*nats.Inlet[ask], *pipeline.Pipeline) {
	t.Helper()
	i := inlet(t, conn, "asks", o)
	opts = append([]stage.Option{stage.Workers(2, 2), stage.Capacity(16)}, opts...)
	p := newPipeline(t, stage.Sink("serve", c.handle, opts...), i.Feed)
	t.Cleanup(c.end) // before the pipeline is stopped
	return i, p
}

// flood publishes commands of a tenant, many at once.
func flood(t testing.TB, i *nats.Inlet[ask], tenant string, n int) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	for w := range 8 {
		all.Go(func() {
			for k := w; k < n; k += 8 {
				assert.NoError(t, i.Publish(t.Context(), fmt.Sprint(tenant, k), ask{tenant, k}))
			}
		})
	}
}

// waitOf publishes a command of a quiet tenant, and returns how many others are handled before it, at most so many.
func (c *counter) waitOf(t *testing.T, i *nats.Inlet[ask], of []*nats.Inlet[ask], full uint64, most int) int {
	t.Helper()
	inFlight := func() (n uint64) {
		for _, i := range of {
			n += i.Counts().InFlight
		}
		return n
	}
	require.Eventually(t, func() bool { return inFlight() == full }, time.Minute, time.Millisecond, "the processes have as many messages as they may")
	before := c.all()
	require.NoError(t, i.Publish(t.Context(), "", ask{"quiet", 0}))
	if most < backlog {
		for range 2000 { // one of them mostly gets it all the same; if not, it is dealt with the next place
			if inFlight() > full {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	for c.of("quiet") == 0 && c.all()-before < most {
		c.let(t, 1)
	}
	return c.all() - before
}

const backlog = 600 // of the flood

func TestAQuietTenantPassesABacklogInTheStream(t *testing.T) {
	const inFlight, processes = 16, 2
	rows := []struct {
		name        string
		o           nats.Options[ask]
		opts        []stage.Option
		least, most int
	}{
		{"a plain inlet: it waits for all", nats.Options[ask]{MaxInFlight: inFlight, Memory: true}, nil, 300, backlog},
		{"a fair inlet: it waits for what a process has", fair(nil, inFlight), nil, 0, 3 * processes * inFlight},
		{"a fair inlet and a fair stage: it waits for handlers", fair(nil, inFlight),
			[]stage.Option{stage.Fair(func(a ask) string { return a.Tenant }, nil, 0), stage.Batch(1)}, 0, processes * inFlight},
	}
	lanes := nats.Options[ask]{Lanes: map[string]int{"quiet": 8, "flood": 1}, Lane: laneOf, MaxInFlight: inFlight, Memory: true}
	rows = append(rows, rows[1], rows[2])
	rows[3].name, rows[3].o = "an inlet with lanes: it waits for what a process has", lanes
	rows[4].name, rows[4].o = "an inlet with lanes and a fair stage: it waits for handlers", lanes
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
			c := newCounter()
			i := inlet(t, connect(t, s.ClientURL()), "asks", r.o)
			flood(t, i, "flood", backlog)
			var of []*nats.Inlet[ask]
			for range processes {
				own, _ := c.process(t, connect(t, s.ClientURL()), r.o, r.opts...)
				of = append(of, own)
			}
			c.let(t, 60)
			wait := c.waitOf(t, i, of, processes*inFlight, r.most)
			t.Logf("after %d commands", wait)
			require.GreaterOrEqual(t, wait, r.least)
			require.LessOrEqual(t, wait, r.most)
		})
	}
}

// distinct returns names of tenants that are in partitions of their own.
func distinct(n, parts int) (names []string) {
	taken := map[int]bool{nats.ShareOf("flood", parts): true}
	for k := 0; len(names) < n; k++ {
		name := fmt.Sprint("tenant ", k)
		if part := nats.ShareOf(name, parts); !taken[part] {
			taken[part] = true
			names = append(names, name)
		}
	}
	return names
}

func TestTenantsShareAnInletByTheirWeights(t *testing.T) {
	const parts, processes, tenants, each, inFlight = 64, 2, 5, 250, 12
	names := distinct(tenants, parts)
	rows := []struct {
		name   string
		weight tenantWeights
		let    int
		want   map[string]int
	}{
		{"equal ones beside a flood", nil, (tenants + 1) * 100, map[string]int{"flood": 100, names[0]: 100, names[4]: 100}},
		{"one of three times the weight", tenantWeights{names[3]: 3}, (tenants + 3) * 60, map[string]int{"flood": 60, names[0]: 60, names[3]: 180}},
		{"a flood of half the weight", tenantWeights{names[0]: 2, names[1]: 2}, (tenants + 3) * 60, map[string]int{"flood": 60, names[0]: 120, names[1]: 120}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
			o := fair(r.weight, inFlight)
			o.Partitions = parts
			c := newCounter()
			i := inlet(t, connect(t, s.ClientURL()), "asks", o)
			flood(t, i, "flood", tenants*each)
			for _, name := range names {
				flood(t, i, name, each)
			}
			for range processes {
				c.process(t, connect(t, s.ClientURL()), o)
			}
			c.let(t, r.let)
			for name, want := range r.want {
				// a process that begins may take all its places from the tenant that it hears of first
				require.InDelta(t, want, c.of(name), float64(max(processes*inFlight+6, want/2)), "%s: %v", name, c.handled)
			}
		})
	}
}

func TestNoMoreMessagesOfAKeyAreInFlightThanAtOnce(t *testing.T) {
	const atOnce, processes, n = 3, 2, 60
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	o := fair(nil, 32)
	o.AtOnce = atOnce
	var here, most, done atomic.Int64
	var mu sync.Mutex
	handle := func(_ context.Context, a ask) error {
		if a.Tenant == "flood" {
			mu.Lock()
			most.Store(max(most.Load(), here.Add(1)))
			mu.Unlock()
			defer here.Add(-1)
		}
		time.Sleep(time.Millisecond)
		done.Add(1)
		return nil
	}
	i := inlet(t, connect(t, s.ClientURL()), "asks", o)
	flood(t, i, "flood", n)
	for range processes {
		newPipeline(t, stage.Sink("serve", handle, stage.Workers(8, 8)), inlet(t, connect(t, s.ClientURL()), "asks", o).Feed)
	}
	flood(t, i, "other", n)
	require.Eventually(t, func() bool { return done.Load() == 2*n }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, most.Load(), int64(atOnce))
	require.Positive(t, most.Load())
}

func TestASharedInletEndsWhenItIsEmpty(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	o := fair(nil, 8)
	o.UntilEmpty = true
	i := inlet(t, conn, "asks", o)
	var n atomic.Int64
	serve := stage.FlatMap("serve", func(_ context.Context, a ask, emit func(ask) error) error {
		n.Add(1)
		if a.N > 0 {
			return emit(ask{a.Tenant + "'", a.N - 1})
		}
		return nil
	})
	p, err := pipeline.New("test", pipeline.Feed("feed", serve, i.Feed), serve.To(i.Publisher("again", nil)), quiet)
	require.NoError(t, err)
	for k := range 20 {
		require.NoError(t, i.Publish(t.Context(), "", ask{fmt.Sprint(k), 3}))
	}
	require.NoError(t, p.Run(t.Context()))
	require.EqualValues(t, 80, n.Load())
	require.Equal(t, nats.Status{Published: 80}, eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 }))
}

func TestALetterOfATenantReturnsToItsTurns(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	o := fair(nil, 8)
	o.Retry = stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond}
	o.Logger = slog.New(slog.DiscardHandler)
	i := inlet(t, conn, "asks", o)
	var fails, mended atomic.Int64
	newPipeline(t, stage.Sink("serve", func(_ context.Context, a ask) error {
		if a.Tenant == "bad" && mended.Load() == 0 {
			fails.Add(1)
			return errors.New("no")
		}
		if a.Tenant == "bad" {
			mended.Add(1)
		}
		return nil
	}), i.Feed)
	require.NoError(t, i.Publish(t.Context(), "1", ask{"bad", 1}))
	require.NoError(t, i.Publish(t.Context(), "2", ask{"good", 1}))
	s := eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 })
	require.Equal(t, nats.Status{Published: 2, Buried: 1, DeadLettered: 1}, s)
	require.EqualValues(t, 2, fails.Load())
	mended.Store(1)
	for l, err := range i.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, reason.Error, l.Reason)
		require.NoError(t, i.Retry(t.Context(), l))
	}
	require.Eventually(t, func() bool { return mended.Load() == 2 }, time.Minute, time.Millisecond)
}

func TestWhatIsWrongWithSharesIsAnError(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	good := fair(nil, 8)
	_ = inlet(t, conn, "shared", good)
	_ = inlet(t, conn, "plain", nats.Options[ask]{})
	with := func(change func(o *nats.Options[ask])) nats.Options[ask] {
		o := good
		change(&o)
		return o
	}
	rows := []struct {
		name, inlet string
		o           nats.Options[ask]
		want        string
	}{
		{"fewer than no messages at once", "new", with(func(o *nats.Options[ask]) { o.AtOnce = -1 }), "AtOnce is -1"},
		{"a bound for no keys", "new", nats.Options[ask]{AtOnce: 1}, "AtOnce is 1, and needs Fair"},
		{"too many partitions", "new", with(func(o *nats.Options[ask]) { o.Partitions = 1000 }), "Partitions is 1000, and must be from 1 to 256"},
		{"another number of partitions", "shared", with(func(o *nats.Options[ask]) { o.Partitions = 8 }), "has 64 partitions, and is to have 8: remove it when it is empty"},
		{"a plain inlet that is to be fair", "plain", good, `has "the messages of a Golda inlet", and is to have "the messages of a Golda inlet in 64 shares": remove it when it is empty`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := nats.NewInlet(t.Context(), conn, r.inlet, r.o)
			require.ErrorContains(t, err, r.want)
		})
	}
	t.Run("the key of a command panics", func(t *testing.T) {
		o := good
		o.Fair = func(ask) (string, int) { panic("no key") }
		require.ErrorContains(t, inlet(t, conn, "shared", o).Publish(t.Context(), "", ask{}), "Options.Fair panicked: no key")
	})
	t.Run("a key has no weight", func(t *testing.T) {
		o := good
		o.Fair = func(ask) (string, int) { return "a", 0 }
		require.ErrorContains(t, inlet(t, conn, "shared", o).Publish(t.Context(), "", ask{}), `Options.Fair returned a weight below 1: 0 of the key "a"`)
	})
	t.Run("a publisher without the keys", func(t *testing.T) {
		i := inlet(t, conn, "shared", nats.Options[ask]{})
		require.ErrorContains(t, i.Publish(t.Context(), "", ask{}), "give NewInlet the same Options.Fair")
		p, err := pipeline.New("test", pipeline.Feed("feed", stage.Sink("serve", func(context.Context, ask) error { return nil }), i.Feed), quiet)
		require.NoError(t, err)
		require.ErrorContains(t, p.Run(t.Context()), "give NewInlet the same Options.Fair")
	})
	t.Run("a keyed stage of a carrier", func(t *testing.T) {
		keyed := stage.Keyed("enter", func(a ask) string { return a.Tenant }, func(string) behaviour.Behaviour[ask] { return nil })
		_, err := pipeline.New("ledger", quiet, keyed, pipeline.Assign("back", "enter"),
			pipeline.RunsHere(nats.NewCarrier(conn, "ledger", nats.Options[any]{}, nats.Carry("enter", good)), "back"))
		require.ErrorContains(t, err, "is keyed, and its inlet cannot have Options.Fair")
	})
}

// Three processes share an inlet. Process 0 publishes. Process 1 is killed, process 2 stands still, and process 0 is cut off from the server.
func TestProcessesThatShareAFairInletLoseNothingWhenTheyAreKilled(t *testing.T) {
	lasts(t)
	t.Parallel()
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	conn := connect(t, s.ClientURL())
	link := newProxy(t, strings.TrimPrefix(s.ClientURL(), "nats://"))
	dir := t.TempDir()
	var all [3]*process
	for k := range all {
		url := s.ClientURL()
		if k == 0 {
			url = "nats://" + link.address()
		}
		all[k] = job{Name: "p" + strconv.Itoa(k), Dir: dir, URL: url, Publish: k == 0, Fair: true}.spawn(t)
	}
	for _, p := range all {
		goOn(t, "all work", p)
	}
	all[1].kill(t)
	goOn(t, "the others go on without the process that was killed", all[0], all[2])
	killed := all[1]
	all[1] = killed.spawn(t)
	goOn(t, "the process that was killed works again", all[1])
	standStill(t, all[2].cmd.Process, func() { goOn(t, "the others go on without the process that stands still", all[0], all[1]) })
	goOn(t, "the process that stood still works again", all[2])
	enoughToDo(t, conn)
	away := all[0].report().Away
	link.cut()
	await(t, "the process that is cut off is away", func() bool { return all[0].report().Away > away && all[0].report().Feed == "away" })
	link.heal()
	goOn(t, "the process that was cut off works again", all[0])
	books{alive: all[:], killed: []*process{killed}}.balance(t, conn, all[0])
	for _, p := range all {
		p.stop(t)
	}
}

// The stage of another process is shared as one of this process is.
func TestTenantsShareTheInletOfACarrier(t *testing.T) {
	const flooded, quiet = 400, 20
	conn := embed(t, t.TempDir(), nats.Store{})
	var mu sync.Mutex
	var order []string
	serve := func() *stage.Stage[ask] {
		return stage.Func("far", func(_ context.Context, a ask) behaviour.Outcome {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, a.Tenant)
			return behaviour.OK(nil)
		}, stage.Fair(func(a ask) string { return a.Tenant }, nil, 0))
	}
	o := nats.Carry("far", fair(nil, 8))
	far, _ := half(t, conn, "a", serve, o)
	for k := range flooded {
		require.NoError(t, far.Submit(t.Context(), ask{"flood", k}))
	}
	for k := range quiet {
		require.NoError(t, far.Submit(t.Context(), ask{"quiet", k}))
	}
	require.Eventually(t, func() bool {
		s, err := conn.Status(t.Context(), "pair_far")
		return err == nil && s.Published == flooded+quiet
	}, time.Minute, time.Millisecond)
	half(t, conn, "b", serve, o)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(order) == flooded+quiet
	}, time.Minute, time.Millisecond)
	last := 0
	for k, tenant := range order {
		if tenant == "quiet" {
			last = k + 1
		}
	}
	require.Less(t, last, flooded/2, "the quiet tenant waits for its own commands and as many of the other, %v", order)
}
