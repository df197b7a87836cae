package nats_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// asReached has the role and the directory of a process that opens, or reaches, a store.
const asReached = "GOLDA_TEST_REACHED"

// fast are options with which what a dead process held is delivered again soon.
var fast = nats.Options[int]{AckWait: 300 * time.Millisecond, MaxInFlight: 10}

// runReached is the process. It ends when its standard input does.
func runReached(spec string) error {
	role, dir, _ := strings.Cut(spec, ":")
	ctx := context.Background()
	if role == "serve" {
		if _, err := nats.Embed(dir, nats.Store{Listen: ":0"}); err != nil {
			return err
		}
		fmt.Println("serves")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	if role == "make" {
		return runMaker(ctx, dir)
	}
	conn, err := nats.Reach(ctx, dir)
	if err != nil {
		return err
	}
	numbers, err := nats.NewInlet(ctx, conn, "numbers", fast)
	if err != nil {
		return err
	}
	hold := stage.Sink("hold", func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
	p, err := pipeline.New("holds", hold, pipeline.Feed("numbers", hold, numbers.Feed), quiet)
	if err == nil {
		err = p.Start(ctx)
	}
	if err != nil {
		return err
	}
	for numbers.Counts().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("holds")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// runMaker makes three inlets when it is told to, in the server of a directory or at URLs.
func runMaker(ctx context.Context, at string) error {
	replicas, at, _ := strings.Cut(at, ":")
	reach := nats.Reach
	if strings.Contains(at, "://") {
		reach = nats.Connect
	}
	conn, err := reach(ctx, at)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	o := fast
	o.Replicas, _ = strconv.Atoi(replicas)
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	begin := time.Now()
	for _, name := range []string{"one", "two", "three"} {
		if _, err := nats.NewInlet(ctx, conn, name, o); err != nil {
			return err
		}
	}
	fmt.Println("made in", time.Since(begin).Round(time.Millisecond))
	return conn.Close(ctx)
}

// reached is a process of runReached.
type reached struct {
	cmd   *exec.Cmd
	input io.Writer
	lines *bufio.Scanner
}

// spawnReached starts a process. It is killed at the end of the test, if not before.
func spawnReached(t *testing.T, role, dir string) *reached {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), asReached+"="+role+":"+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := &reached{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(r.kill)
	return r
}

// says waits for the next line of a process.
func (r *reached) says(t *testing.T) string {
	t.Helper()
	require.True(t, r.lines.Scan(), "the process has ended")
	return r.lines.Text()
}

// kill kills the process as kill -9 does.
func (r *reached) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func TestASecondProcessThatIsKilledLosesNothingOfAListeningStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	numbers := inlet(t, embed(t, dir, nats.Store{Listen: ":0"}), "numbers", fast)
	const n = 30
	publish(t, numbers, n)
	other := spawnReached(t, "hold", dir)
	require.Equal(t, "holds", other.says(t))
	require.Positive(t, status(t, numbers).InFlight, "it has some")
	other.kill()
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "all are done", func() bool { return done.len() == n && status(t, numbers).Pending == 0 })
}

// The server comes back with another port and another password.
func TestAListeningServerThatIsKilledIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := spawnReached(t, "serve", dir)
	require.Equal(t, "serves", first.says(t))
	conn, err := nats.Reach(t.Context(), dir, natsgo.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer shut(t, conn)
	numbers := inlet(t, conn, "numbers", fast)
	const n = 30
	publish(t, numbers, n)
	before := accessOf(t, dir)
	first.kill()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, numbers.Publish(short, "away", 0), nats.ErrAway)
	require.Equal(t, "serves", spawnReached(t, "serve", dir).says(t))
	after := accessOf(t, dir)
	require.NotEqual(t, before.User.String(), after.User.String())
	eventually(t, "it is connected again", func() bool { return conn.Healthy() == nil })
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "all are done", func() bool { return done.len() == n && status(t, numbers).Pending == 0 })
}

// accessOf reads the file of a store.
func accessOf(t testing.TB, dir string) *url.URL {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "golda.access"))
	require.NoError(t, err)
	u, err := url.Parse(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return u
}

func TestAListeningServerIsOnLoopbackAndWantsItsPassword(t *testing.T) {
	dir := t.TempDir()
	conn := embed(t, dir, nats.Store{Listen: ":0"})
	a := accessOf(t, dir)
	host, _, err := net.SplitHostPort(a.Host)
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback())
	for _, options := range [][]natsgo.Option{nil, {natsgo.UserInfo("golda", "guessed")}} {
		_, err = nats.Connect(t.Context(), "nats://"+a.Host, options...)
		require.ErrorIs(t, err, natsgo.ErrAuthorization)
	}
	own, err := nats.Connect(t.Context(), a.String())
	require.NoError(t, err)
	shut(t, own)
	shut(t, conn)
	embed(t, dir, nats.Store{})
	_, err = nats.Reach(t.Context(), dir)
	require.ErrorContains(t, err, "set Store.Listen")
}

// The user of the store has chosen no password, so a warning about it would be of no use.
func TestAListeningServerDoesNotWarnOfItsOwnPassword(t *testing.T) {
	var log buffer
	dir := t.TempDir()
	embed(t, dir, nats.Store{Listen: ":0", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	conn, err := nats.Reach(t.Context(), dir)
	require.NoError(t, err)
	shut(t, conn)
	require.Empty(t, log.String())
}

func TestAnAccessFileThatOthersMayUseIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	dir := t.TempDir()
	_, err := nats.Reach(t.Context(), dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "set Store.Listen")
	conn := embed(t, dir, nats.Store{Listen: ":0"})
	file := filepath.Join(dir, "golda.access")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = nats.Reach(t.Context(), dir)
	require.ErrorContains(t, err, "has the mode 0640")
	require.ErrorContains(t, err, file)
	require.NoError(t, os.Chmod(file, 0o600))
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(file, moved))
	require.NoError(t, os.Symlink(moved, file))
	_, err = nats.Reach(t.Context(), dir)
	require.ErrorContains(t, err, "no regular file")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	_, err = nats.Reach(t.Context(), dir)
	require.ErrorContains(t, err, "it should have a URL")
	require.NoError(t, os.Rename(moved, file))
	address, password := accessOf(t, dir).Host, accessOf(t, dir).User
	shut(t, conn)
	_, err = nats.Reach(t.Context(), dir)
	require.ErrorContains(t, err, address)
	secret, _ := password.Password()
	require.NotContains(t, err.Error(), secret)
}

func TestAnAddressThatIsWrongOrTakenIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for _, c := range [][2]string{
		{"here", "Listen is \"here\""}, {":99999", "Listen is \":99999\""}, {l.Addr().String(), "address already in use"},
	} {
		_, err := nats.Embed(t.TempDir(), nats.Store{Listen: c[0]})
		require.ErrorContains(t, err, c[1])
	}
}

// makeInletsAtOnce has three processes make the same inlets at the same time, and logs how long each takes.
func makeInletsAtOnce(t *testing.T, replicas int, at ...string) {
	t.Helper()
	var makers []*reached
	for k := range 3 {
		makers = append(makers, spawnReached(t, "make", fmt.Sprint(replicas, ":", at[k%len(at)])))
	}
	for _, m := range makers {
		require.Equal(t, "ready", m.says(t))
	}
	for _, m := range makers {
		_, err := fmt.Fprintln(m.input)
		require.NoError(t, err)
	}
	for _, m := range makers {
		said := m.says(t)
		require.Contains(t, said, "made in")
		t.Log(said)
	}
}

func TestThreeProcessesMakeTheSameInletsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("in a server that listens", func(t *testing.T) {
		dir := t.TempDir()
		embed(t, dir, nats.Store{Listen: ":0"})
		makeInletsAtOnce(t, 0, dir)
	})
	t.Run("in an external server", func(t *testing.T) {
		e := startExternal(t)
		makeInletsAtOnce(t, 0, "nats://"+e.address)
	})
	t.Run("in a cluster of external servers", func(t *testing.T) {
		makeInletsAtOnce(t, 3, urls(startCluster(t))...)
	})
}
