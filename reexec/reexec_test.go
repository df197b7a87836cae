package reexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/reexec"
)

// programEnv makes the test binary the program that is replaced. Its version is the name of its file; its value is what it does.
const programEnv = "GOLDA_REEXEC_TEST"

func TestMain(m *testing.M) {
	if does := os.Getenv(programEnv); does != "" {
		program(does)
		return
	}
	goleak.VerifyTestMain(m)
}

// program is the main function of the program.
func program(does string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	version := filepath.Base(self)
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGTERM)
	p := &reexec.Program{
		Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Offer:  func() ([]byte, error) { return []byte("from " + version), nil },
		Check: func(_ context.Context, offer []byte) error {
			switch version {
			case "strict":
				return fmt.Errorf("cannot follow %q", offer)
			case "crashing":
				panic("check crashed")
			case "slow":
				time.Sleep(time.Hour)
			case "ending":
				os.Exit(0)
			}
			return nil
		},
		Serve: func(ctx context.Context) error {
			fmt.Fprintln(os.Stdout, "serving", version, os.Getpid(), os.Args[1:])
			select {
			case <-ctx.Done():
			case <-quit:
				return nil
			}
			fmt.Fprintln(os.Stdout, "stopping", version)
			switch does {
			case "remove": // what it would be replaced by
				return os.Remove(os.Args[0])
			case "linger":
				<-quit
			case "fail":
				return errors.New("not drained")
			}
			return nil
		},
	}
	if does == "hurry" {
		p.CheckTime = 300 * time.Millisecond
	}
	if does == "offerless" {
		p.Offer = func() ([]byte, error) { panic("no offer") }
	}
	if err := p.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ended")
}

// running is a process of the program.
type running struct {
	testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	dir   string
}

// start starts version v1 of the program, by a symbolic link.
func start(t *testing.T, does string) *running {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is asked with SIGHUP")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	r := &running{TB: t, dir: t.TempDir()}
	for _, version := range []string{"v1", "v2", "strict", "crashing", "slow", "ending"} {
		text, err := os.ReadFile(self)
		require.NoError(t, err)
		if os.Link(self, r.path(version)) != nil { // another file system
			require.NoError(t, os.WriteFile(r.path(version), text, 0o700))
		}
	}
	r.point("v1")
	r.cmd = exec.CommandContext(t.Context(), r.path("current"), "-an", "argument")
	r.cmd.Env = append(os.Environ(), programEnv+"="+does, "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	r.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	r.see(fmt.Sprintf("serving v1 %d [-an argument]", r.cmd.Process.Pid))
	return r
}

func (r *running) path(name string) string { return filepath.Join(r.dir, name) }

// point has the link lead to another version.
func (r *running) point(version string) {
	r.Helper()
	require.NoError(r, os.Symlink(version, r.path("next")))
	require.NoError(r, os.Rename(r.path("next"), r.path("current")))
}

func (r *running) signal(s os.Signal) {
	r.Helper()
	require.NoError(r, r.cmd.Process.Signal(s))
}

// see reads lines up to one with a text, and returns that.
func (r *running) see(text string) string {
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

func TestTheProcessBecomesTheNewVersionWithItsNumberAndArguments(t *testing.T) {
	r := start(t, "serve")
	for k := range 6 {
		version := []string{"v2", "v1"}[k%2]
		r.point(version)
		r.signal(syscall.SIGHUP)
		r.see("stopping")
		r.see(fmt.Sprintf("serving %s %d [-an argument]", version, r.cmd.Process.Pid))
	}
	r.signal(syscall.SIGTERM)
	r.see("ended")
}

func TestANewVersionThatWillNotDoIsRefusedAndTheOldOneGoesOn(t *testing.T) {
	write := func(text string, mode fs.FileMode) func(*running) {
		return func(r *running) {
			require.NoError(r, os.WriteFile(r.path("other"), []byte(text), mode))
			r.point("other")
		}
	}
	version := func(name string) func(*running) { return func(r *running) { r.point(name) } }
	for name, c := range map[string]struct {
		does string
		put  func(*running)
		why  string
	}{
		"is missing":                  {"serve", version("nowhere"), "no such file"},
		"cannot be executed":          {"serve", write("text", 0o600), "permission denied"},
		"is no program":               {"serve", write("text", 0o700), "exec format error"},
		"is a directory":              {"serve", func(r *running) { require.NoError(r, os.Mkdir(r.path("other"), 0o700)); r.point("other") }, "denied"},
		"ends with a status":          {"serve", write("#!/bin/sh\necho broken >&2; exit 3", 0o700), "exit status 3: broken"},
		"is killed":                   {"serve", write("#!/bin/sh\nkill -9 $$", 0o700), "signal: killed"},
		"is another program":          {"serve", write("#!/bin/sh\nenv", 0o700), "it has not called Run"},
		"ends well without a check":   {"serve", version("ending"), "it has not called Run"},
		"returns an error from Check": {"serve", version("strict"), "cannot follow"},
		"crashes in Check":            {"serve", version("crashing"), "Check has panicked: check crashed"},
		"does not end its Check":      {"hurry", version("slow"), "the check has not ended within 300ms"},
		"is not offered anything":     {"offerless", version("v2"), "Offer has panicked: no offer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c.does)
			c.put(r)
			r.signal(syscall.SIGHUP)
			line := r.see("no new version; this one goes on")
			assert.Contains(t, line, "level=WARN")
			assert.Contains(t, line, c.why)
			assert.Contains(t, line, "reexec: ")
			r.signal(syscall.SIGTERM)
			r.see("ended")
		})
	}
}

func TestAfterARefusalTheNextVersionMayDo(t *testing.T) {
	r := start(t, "serve")
	for _, version := range []string{"strict", "nowhere"} {
		r.point(version)
		r.signal(syscall.SIGHUP)
		r.see("no new version; this one goes on")
	}
	r.point("v2")
	r.signal(syscall.SIGHUP)
	r.see("serving v2")
}

func TestAFileThatIsGoneAfterTheCheckHasTheOldVersionServeAgain(t *testing.T) {
	r := start(t, "remove")
	r.signal(syscall.SIGHUP)
	r.see("stopping v1")
	require.Contains(t, r.see("the process was not replaced"), "no such file")
	r.see("serving v1")
	r.point("v2")
	r.signal(syscall.SIGHUP)
	r.see("stopping v1") // and removes it
	r.see("serving v1")
}

func TestAVersionThatDoesNotEndWellIsReplaced(t *testing.T) {
	r := start(t, "fail")
	r.point("v2")
	r.signal(syscall.SIGHUP)
	require.Contains(t, r.see("did not end well"), "not drained")
	r.see("serving v2")
}

func TestASignalToEndWhileTheOldVersionStopsEndsTheProgram(t *testing.T) {
	r := start(t, "linger")
	r.point("v2")
	r.signal(syscall.SIGHUP)
	r.see("stopping v1")
	r.signal(syscall.SIGTERM) // the program ends at that
	r.see("ended")
	require.NoError(t, r.cmd.Wait())
}

func TestASignalToEndWhileTheNewVersionIsCheckedEndsTheProgram(t *testing.T) {
	r := start(t, "serve")
	r.point("slow")
	r.signal(syscall.SIGHUP)
	time.Sleep(50 * time.Millisecond) // either way it ends
	r.signal(syscall.SIGTERM)
	r.see("ended")
	require.NoError(t, r.cmd.Wait())
}

func TestManyHangupsEndNothing(t *testing.T) {
	r := start(t, "serve")
	r.point("v2")
	for range 50 {
		r.signal(syscall.SIGHUP)
		time.Sleep(5 * time.Millisecond) // so that some arrive while it is replaced
	}
	r.see("serving v2")
	r.signal(syscall.SIGHUP)
	r.see("serving v2")
}

func TestMisuseIsAnError(t *testing.T) {
	require.EqualError(t, (&reexec.Program{CheckTime: -1}).Run(t.Context()), "reexec: the function Serve is nil\nCheckTime is -1ns; use 0 for 30s")
	require.EqualError(t, new(reexec.Program).Replace(t.Context()), "reexec: the program does not run, or ends")
	var p *reexec.Program
	p = &reexec.Program{Path: filepath.Join(t.TempDir(), "nowhere"), Serve: func(ctx context.Context) error {
		assert.EqualError(t, p.Run(ctx), "reexec: Run was called twice")
		assert.ErrorIs(t, p.Replace(ctx), fs.ErrNotExist)
		assert.ErrorIs(t, p.Replace(ctx), fs.ErrNotExist) // it may be tried again
		over, cancel := context.WithCancel(ctx)
		cancel()
		assert.ErrorIs(t, p.Replace(over), context.Canceled)
		return errors.New("over")
	}}
	require.EqualError(t, p.Run(t.Context()), "over")
	require.Error(t, p.Replace(t.Context()))
	require.Panics(t, func() { _ = p.Run(nil) })     //nolint:staticcheck // that is the test
	require.Panics(t, func() { _ = p.Replace(nil) }) //nolint:staticcheck // that is the test
	p.Serve = func(context.Context) error { panic("Serve crashed") }
	require.PanicsWithValue(t, "Serve crashed", func() { _ = p.Run(t.Context()) })
}
