//go:build unix

package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a server that a test has started. It does not outlive the tests.
type process struct {
	cmd  *exec.Cmd
	text *output
	done chan struct{} // closed when it has ended
}

// output keeps what a server writes.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts a program. The goroutine that starts it keeps its thread until the program has ended, because the system kills the program
// when that thread ends.
func run(dir string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), text: &output{}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, append(os.Environ(), env...), p.text, p.text
	p.cmd.SysProcAttr = attributes()
	p.cmd.WaitDelay = time.Second // its children have its output
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// kill kills a server and its children, and waits for the end.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// ended reports whether a server has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

var errEnded = errors.New("the server has ended")

// answer waits until a server answers.
func (p *process) answer(ask func() error) error {
	for limit := time.Now().Add(2 * time.Minute); ; {
		err := ask()
		switch {
		case err == nil:
			return nil
		case p.ended():
			err = errEnded
		case time.Now().Before(limit):
			time.Sleep(20 * time.Millisecond)
			continue
		}
		p.kill()
		return fmt.Errorf("%w\n%s", err, p.text)
	}
}

// freePort returns a port that is free on the loopback, and that the system does not give to clients.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// needs skips a test whose program is not installed, or fails it if that is required.
func needs(t testing.TB, pkg string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("GOLDA_BROKERS") == "required" {
			t.Fatalf("there is no %s, and GOLDA_BROKERS is required: apt-get install %s", program, pkg)
		}
		t.Skipf("there is no %s: apt-get install %s", program, pkg)
	}
}
