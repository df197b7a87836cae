package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// collecting is a child process that collects numbers in windows, until the inlet is empty. The server is inside of it.
type collecting struct{ Dir, Form string }

// collectingEnv has what a child process collects.
const collectingEnv = "GOLDA_TEST_COLLECTING"

func (c collecting) file() string { return filepath.Join(c.Dir, "windows") }

// open opens the server and the inlet.
func (c collecting) open(ctx context.Context) (*nats.Conn, *nats.Inlet[int], error) {
	conn, err := nats.Embed(filepath.Join(c.Dir, "store"), nats.Store{})
	if err != nil {
		return nil, nil, err
	}
	numbers, err := nats.NewInlet(ctx, conn, "numbers", nats.Options[int]{
		UntilEmpty: true, AckWait: time.Second, MaxInFlight: 4 * inWindow, Retry: stage.RetryPolicy{Attempts: 1000},
	})
	return conn, numbers, err
}

// run writes a line for each window.
func (c collecting) run(ctx context.Context) (err error) {
	conn, numbers, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	file, err := os.OpenFile(c.file(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to, part := collectors[c.Form](100*time.Millisecond, func(_ context.Context, all []int) error {
		time.Sleep(10 * time.Millisecond) // so that some windows wait
		_, err := fmt.Fprintln(file, strings.Trim(fmt.Sprint(all), "[]"))
		return err
	})
	p, err := pipeline.New("collecting", part, pipeline.Feed("numbers", to, numbers.Feed), quiet)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// collect is the main function of a child process.
func collect(spec string) (status int) {
	var c collecting
	err := json.Unmarshal([]byte(spec), &c)
	if err == nil {
		err = c.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// lines returns the lines that are whole.
func (c collecting) lines() []string {
	text, _ := os.ReadFile(c.file()) // it is not there at first
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

// spawn runs a child, and kills it when it has written some lines, unless that is 0. It reports whether it was killed.
func (c collecting) spawn(t *testing.T, lines int) (killed bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	spec, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), collectingEnv+"="+string(spec)), os.Stderr
	until := len(c.lines()) + lines
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for poll := time.Tick(2 * time.Millisecond); ; {
		select {
		case err := <-ended:
			if killed {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
			}
			return killed
		case <-poll:
			if !killed && lines > 0 && len(c.lines()) >= until {
				killed = cmd.Process.Kill() == nil
			}
		}
	}
}

func TestAProcessThatIsKilledLosesNoMessageOfItsWindows(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("processes are started and killed")
	}
	for form := range collectors {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			const n, kills = 1000, 4
			c := collecting{t.TempDir(), form}
			conn, numbers, err := c.open(t.Context())
			require.NoError(t, err)
			publish(t, numbers, n)
			require.NoError(t, conn.Close(t.Context()))
			for range kills {
				require.True(t, c.spawn(t, 5), "a process has done all before it was killed")
			}
			require.False(t, c.spawn(t, 0))

			handled := map[string]int{}
			for _, line := range c.lines() {
				for _, k := range strings.Fields(line) {
					handled[k]++
				}
			}
			again := 0
			for k := range n {
				require.Positive(t, handled[strconv.Itoa(k)], "%d is lost", k)
				again += handled[strconv.Itoa(k)] - 1
			}
			require.Len(t, handled, n)
			conn, numbers, err = c.open(t.Context())
			require.NoError(t, err)
			require.Equal(t, nats.Status{Published: n}, status(t, numbers))
			require.NoError(t, conn.Close(t.Context()))
			t.Logf("%d windows, %d numbers were handled again", len(c.lines()), again)
		})
	}
}
