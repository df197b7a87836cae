package nats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/reexec"
	"github.com/golda-dev/golda/stage"
)

// shop is a program that publishes and books orders, and is upgraded meanwhile. Its version is the name of its file. Version 1 queues orders
// of version 1 and version 2 those of version 2; both read both.
type shop struct {
	Dir    string
	Orders int           // that are published in all
	Lives  int           // in each life at least an equal part is published, and then the program waits for the next
	Each   time.Duration // that booking an order takes

	version string
}

// shopEnv has the shop of a process that is one.
const shopEnv = "GOLDA_NATS_SHOP"

// sale is an order.
type sale struct {
	N  int
	By string // the version that published it
}

// codec returns the codec of the program's version. Version 0 does not know the orders of version 2.
func (s shop) codec() nats.JSON[sale] {
	other := func(data []byte) (o sale, err error) { return o, json.Unmarshal(data, &o) }
	switch s.version {
	case "v0":
		return nats.JSON[sale]{Type: "sale", Version: 1}
	case "v1":
		return nats.JSON[sale]{Type: "sale", Version: 1, Older: map[int]func([]byte) (sale, error){2: other}}
	default:
		return nats.JSON[sale]{Type: "sale", Version: 2, Older: map[int]func([]byte) (sale, error){1: other}}
	}
}

// program is the program.
func (s shop) program() *reexec.Program {
	return &reexec.Program{
		Serve: s.serve, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Offer: func() ([]byte, error) {
			sample, err := s.codec().Encode(sale{N: 1})
			if err != nil {
				return nil, err
			}
			return json.Marshal(sample)
		},
		Check: func(ctx context.Context, offer []byte) error {
			var sample nats.Payload
			if err := json.Unmarshal(offer, &sample); err != nil {
				return err
			}
			if _, err := s.codec().Decode(sample); err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "check")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			o, err := s.open(ctx, dir)
			if err != nil {
				return err
			}
			return o.conn.Close(ctx)
		},
	}
}

// opened is what a shop opens.
type opened struct {
	conn   *nats.Conn
	orders *nats.Inlet[sale]
	p      *pipeline.Pipeline
}

// open opens the store in a directory, and makes the pipeline:
//
//	numbers ──▶ publish        orders ──▶ book
func (s shop) open(ctx context.Context, dir string) (o opened, err error) {
	if o.conn, err = nats.Embed(filepath.Join(dir, "store"), nats.Store{}); err != nil {
		return o, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.conn.Close(ctx))
		}
	}()
	o.orders, err = nats.NewInlet(ctx, o.conn, "sales", nats.Options[sale]{
		Codec: s.codec(), AckWait: time.Second, Retry: stage.RetryPolicy{Attempts: 1000},
	})
	if err != nil {
		return o, err
	}
	ledger, err := o.conn.Outcomes(ctx, "ledger", 0)
	if err != nil {
		return o, err
	}
	life, err := s.life(dir)
	if err != nil {
		return o, err
	}
	numbers := func(ctx context.Context, submit func(sale) error) error {
		done, err := o.orders.Status(ctx)
		for n := int(done.Published); err == nil && n < s.Orders*min(life, s.Lives)/s.Lives; n++ {
			err = submit(sale{n, s.version})
		}
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
	publish := o.orders.Publisher("publish", func(o sale) string { return strconv.Itoa(o.N) })
	book := stage.Sink("book", func(ctx context.Context, sold sale) error {
		if _, err := nats.Once(ctx, ledger, strconv.Itoa(sold.N), func(context.Context) (string, error) { return s.version, nil }); err != nil {
			return err
		}
		time.Sleep(s.Each)
		return nil
	}, stage.Workers(8, 8))
	o.p, err = pipeline.New("shop", pipeline.Feed("numbers", publish, numbers), pipeline.Feed("orders", book, o.orders.Feed), quiet)
	return o, err
}

// life notes that the program serves, and returns for which time.
func (s shop) life(dir string) (n int, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lives"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	if _, err = f.WriteString("."); err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			n = int(info.Size())
		}
	}
	return n, errors.Join(err, f.Close())
}

// serve runs the pipeline until all orders are booked, or ctx ends.
func (s shop) serve(ctx context.Context) (err error) {
	o, err := s.open(ctx, s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.conn.Close(context.WithoutCancel(ctx))) }()
	fmt.Fprintln(os.Stdout, "serving", s.version, os.Getpid())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if st, err := o.orders.Status(ctx); err == nil && st.Published == uint64(s.Orders) && st.Pending == 0 {
				fmt.Fprintln(os.Stdout, "all booked")
				cancel()
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return o.p.RunUntilSignal(ctx)
}

// sell is the main function of the program.
func sell(work string) (status int) {
	var s shop
	err := json.Unmarshal([]byte(work), &s)
	if err == nil {
		var self string
		self, err = os.Executable()
		s.version = filepath.Base(self)
	}
	if err == nil {
		err = s.program().Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// selling is a process of a shop.
type selling struct {
	testing.TB
	shop
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// sells makes a shop whose file is version v1.
func sells(t *testing.T, s shop) *selling {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is asked with SIGHUP")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	s.Dir = t.TempDir()
	r := &selling{TB: t, shop: s}
	for _, version := range []string{"v0", "v1", "v2"} {
		text, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(s.Dir, version), text, 0o700))
	}
	r.point("v1")
	return r
}

// start starts the process.
func (r *selling) start() {
	r.Helper()
	work, err := json.Marshal(r.shop)
	require.NoError(r, err)
	r.cmd = exec.CommandContext(r.Context(), filepath.Join(r.Dir, "current"))
	r.cmd.Env = append(os.Environ(), shopEnv+"="+string(work), "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(r, err)
	require.NoError(r, r.cmd.Start())
	r.lines = bufio.NewScanner(out)
	process := r.cmd
	r.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	r.see("serving")
}

// point has the file of the program be another one.
func (r *selling) point(file string) {
	r.Helper()
	require.NoError(r, os.Symlink(file, filepath.Join(r.Dir, "next")))
	require.NoError(r, os.Rename(filepath.Join(r.Dir, "next"), filepath.Join(r.Dir, "current")))
}

func (r *selling) hangUp() {
	r.Helper()
	require.NoError(r, r.cmd.Process.Signal(syscall.SIGHUP))
}

// see reads lines up to one with a text, and returns that.
func (r *selling) see(text string) string {
	r.Helper()
	var before []string
	for r.lines.Scan() {
		if strings.Contains(r.lines.Text(), text) {
			return r.lines.Text()
		}
		before = append(before, r.lines.Text())
	}
	require.Fail(r, "the program has ended", "without %q, but with %q", text, before)
	return ""
}

// booked requires that each order is in the ledger, and was entered once, and returns how many each version has booked.
func (r *selling) booked() map[string]int {
	r.Helper()
	r.see("all booked")
	for r.lines.Scan() { // until it ends
		continue
	}
	require.NoError(r, r.cmd.Wait())
	conn := embed(r, filepath.Join(r.Dir, "store"), nats.Store{})
	kept, err := conn.JetStream().Stream(r.Context(), "KV_ledger")
	require.NoError(r, err)
	require.EqualValues(r, r.Orders, kept.CachedInfo().State.LastSeq, "an order was entered twice, or never")
	ledger, err := conn.Outcomes(r.Context(), "ledger", 0)
	require.NoError(r, err)
	by := map[string]int{}
	for n := range r.Orders {
		outcome, found, err := ledger.Get(r.Context(), strconv.Itoa(n))
		require.NoError(r, err)
		require.True(r, found, "order %d", n)
		by[string(outcome)]++
	}
	sales := inlet(r, conn, "sales", nats.Options[sale]{})
	st := status(r, sales)
	require.EqualValues(r, r.Orders, st.Published)
	require.Zero(r, st.Pending)
	require.Zero(r, st.DeadLettered)
	return by
}

// 20,000 orders by six processes, of which each checks the next: that takes some ten seconds.
func TestAProgramIsUpgradedFiveTimesAndBooksEachOrderOnce(t *testing.T) {
	t.Parallel()
	lasts(t)
	r := sells(t, shop{Orders: 20_000, Lives: 6})
	if race {
		r.Orders = 2000
	}
	r.start()
	for _, version := range []string{"v2", "v1", "v2", "v1", "v2"} {
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // some orders wait for the last life, whenever that begins
		r.point(version)
		r.hangUp()
		require.Equal(t, fmt.Sprintf("serving %s %d", version, r.cmd.Process.Pid), r.see("serving"))
	}
	t.Logf("booked: %v", r.booked())
}

func TestAVersionThatCannotReadWhatIsQueuedIsRefused(t *testing.T) {
	t.Parallel()
	r := sells(t, shop{Orders: 100, Lives: 3})
	r.start()
	r.point("v2")
	r.hangUp()
	r.see("serving v2")
	r.point("v0")
	r.hangUp()
	require.Contains(t, r.see("no new version; this one goes on"), "unknown type: version 2 of")
	r.point("v1")
	r.hangUp()
	r.see("serving v1")
	r.booked()
}

func TestAProgramThatIsKilledWhileItStopsForAnotherLosesNothing(t *testing.T) {
	t.Parallel()
	r := sells(t, shop{Orders: 4000, Lives: 20, Each: 5 * time.Millisecond})
	for _, version := range []string{"v2", "v1", "v2", "v1"} { // the next one may have begun: then that is killed
		r.start()
		r.point(version)
		r.hangUp()
		r.see("this one stops")
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		require.NoError(t, r.cmd.Process.Kill())
		_ = r.cmd.Wait()
	}
	r.Lives, r.Each = 1, 0 // now all are published
	r.start()
	r.booked()
}
