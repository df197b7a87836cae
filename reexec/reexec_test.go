package reexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
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
	if does == "wander" { // as daemons do
		if err := os.Chdir("/"); err != nil {
			panic(err)
		}
	}
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
			if does == "listen" {
				return answer(ctx, version)
			}
			fmt.Fprintln(os.Stdout, "files", files())
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
			case "exchange": // what was checked
				script := []byte("#!/bin/sh\necho unchecked\n")
				return errors.Join(os.WriteFile(os.Args[0]+".new", script, 0o700), os.Rename(os.Args[0]+".new", os.Args[0]))
			case "fail":
				return errors.New("not drained")
			}
			return nil
		},
	}
	switch does {
	case "hurry":
		p.CheckTime = 300 * time.Millisecond
	case "offerless":
		p.Offer = func() ([]byte, error) { panic("no offer") }
	case "goexit":
		p.Offer = func() ([]byte, error) { runtime.Goexit(); return nil, nil }
	case "mute":
		p.Offer = func() ([]byte, error) { <-make(chan bool); return nil, nil }
		p.CheckTime = 300 * time.Millisecond
	case "mute for long":
		p.Offer = func() ([]byte, error) { fmt.Fprintln(os.Stdout, "offering"); <-make(chan bool); return nil, nil }
		p.CheckTime = time.Hour
	}
	if err := p.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ended")
}

// socket is the one that whatever has started the program has opened for it. It is kept, so that the new version has it too.
var socket = os.NewFile(3, "socket")

// answer answers each connection with the version, until ctx ends.
func answer(ctx context.Context, version string) error {
	l, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			return nil //nolint:nilerr // it is closed
		}
		fmt.Fprint(c, version)
		_ = c.Close()
	}
}

// files returns how many files the process may open, as Linux says it.
func files() string {
	text, _ := os.ReadFile("/proc/self/limits")
	_, line, _ := strings.Cut(string(text), "Max open files")
	line, _, _ = strings.Cut(line, "\n")
	return strings.Join(strings.Fields(line), " ")
}

// running is a process of the program.
type running struct {
	testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	does  string
	dir   string
}

// start starts version v1 of the program, by a symbolic link.
func start(t *testing.T, does string) *running {
	t.Helper()
	r := prepare(t, does)
	r.run(exec.CommandContext(t.Context(), r.path("current"), "-an", "argument"))
	return r
}

// prepare makes a directory with all versions of the program, and a link to v1.
func prepare(t *testing.T, does string) *running {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is asked with SIGHUP")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	r := &running{TB: t, does: does, dir: t.TempDir()}
	for _, version := range []string{"v1", "v2", "strict", "crashing", "slow", "ending"} {
		text, err := os.ReadFile(self)
		require.NoError(t, err)
		if os.Link(self, r.path(version)) != nil { // another file system
			require.NoError(t, os.WriteFile(r.path(version), text, 0o700))
		}
	}
	r.point("v1")
	return r
}

// run starts the program. It is killed at the end of the test, if not before.
func (r *running) run(cmd *exec.Cmd) {
	r.Helper()
	r.cmd = cmd
	cmd.Env = append(os.Environ(), programEnv+"="+r.does, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(r, err)
	require.NoError(r, cmd.Start())
	r.lines = bufio.NewScanner(out)
	r.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r.see(fmt.Sprintf("serving v1 %d [-an argument]", cmd.Process.Pid))
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
		"waits for its offer":         {"mute", version("v2"), "the check has not ended within 300ms"},
		"gets an offer that has gone": {"goexit", version("v2"), "the function has ended its goroutine"},
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

func TestAFileThatChangesAfterItsCheckIsNotRun(t *testing.T) {
	r := start(t, "exchange")
	r.point("v2")
	r.signal(syscall.SIGHUP)
	require.Contains(t, r.see("the process was not replaced"), "the file has changed since it was checked")
	r.see("serving v1")
}

func TestAfterAReplacementThatFailedTheProcessMayOpenAsManyFilesAsBefore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the limit is read from /proc")
	}
	r := prepare(t, "remove")
	r.run(exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -Sn 100; exec "$0" "$@"`, r.path("current"), "-an", "argument"))
	before := r.see("files ")
	r.signal(syscall.SIGHUP)
	r.see("the process was not replaced")
	require.Equal(t, before, r.see("files "))
}

func TestALinkIsFollowedFromAnotherWorkingDirectory(t *testing.T) {
	r := prepare(t, "wander")
	cmd := exec.CommandContext(t.Context(), r.path("current"), "-an", "argument")
	cmd.Dir, cmd.Args[0] = r.dir, "./current"
	r.run(cmd)
	for k := range 4 {
		version := []string{"v2", "v1"}[k%2]
		r.point(version)
		r.signal(syscall.SIGHUP)
		r.see(fmt.Sprintf("serving %s %d [-an argument]", version, cmd.Process.Pid))
	}
}

func TestTheNameOfAnotherProgramIsNotFollowed(t *testing.T) {
	for _, name := range []string{"sh", "/bin/sh", "", "-current", "no such program"} {
		r := prepare(t, "serve")
		cmd := exec.CommandContext(t.Context(), r.path("current"), "-an", "argument")
		cmd.Args[0] = name
		r.run(cmd)
		r.signal(syscall.SIGHUP)
		r.see("stopping v1")
		r.see("serving v1")
	}
}

// The socket is bound by the test, as by systemd, and its queue is the kernel's.
func TestConnectionsToASocketThatWasPassedWaitForTheNewVersion(t *testing.T) {
	r := prepare(t, "listen")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), r.path("current"), "-an", "argument")
	cmd.ExtraFiles = []*os.File{file}
	r.run(cmd)
	require.NoError(t, errors.Join(file.Close(), l.Close())) // now only the program has it

	var answers []string
	ask := func() {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		text, err := io.ReadAll(c)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		if n := len(answers); n == 0 || answers[n-1] != string(text) {
			answers = append(answers, string(text))
		}
	}
	for k := range 3 {
		version := []string{"v2", "v1"}[k%2]
		r.point(version)
		r.signal(syscall.SIGHUP)
		for ask(); answers[len(answers)-1] != version; {
			ask()
		}
	}
	require.Equal(t, []string{"v1", "v2", "v1", "v2"}, answers)
}

func TestAProgramEndsThoughItsOfferHangs(t *testing.T) {
	r := start(t, "mute for long")
	r.signal(syscall.SIGHUP)
	r.see("offering")
	r.signal(syscall.SIGTERM)
	r.see("ended")
}

func TestAReplacementEndsWithTheProgram(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, replaced <-chan error){
		"that returns": func(*testing.T, <-chan error) {},
		"that waits for it after a signal": func(t *testing.T, replaced <-chan error) {
			t.Helper()
			if runtime.GOOS == "windows" {
				t.Skip("no signals")
			}
			self, err := os.FindProcess(os.Getpid())
			require.NoError(t, err)
			require.NoError(t, self.Signal(syscall.SIGTERM))
			require.ErrorContains(t, <-replaced, "the program does not run, or ends")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("the new version is a script")
			}
			dir := t.TempDir()
			path, began := filepath.Join(dir, "next"), filepath.Join(dir, "began")
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntouch "+began+"\nexec sleep 3600\n"), 0o700))
			replaced := make(chan error, 2)
			p := &reexec.Program{Path: path, CheckTime: time.Hour}
			p.Serve = func(context.Context) error {
				go func() {
					err := p.Replace(context.Background())
					replaced <- err
					replaced <- err
				}()
				require.Eventually(t, func() bool { _, err := os.Stat(began); return err == nil }, time.Minute, time.Millisecond)
				end(t, replaced)
				return nil
			}
			require.NoError(t, p.Run(t.Context()))
			require.ErrorContains(t, <-replaced, "the program does not run, or ends")
			require.EqualError(t, p.Replace(t.Context()), "reexec: the program does not run, or ends")
		})
	}
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
