package pipeline_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// retryDir has, in the process that is killed, the directory of its letters.
const retryDir = "GOLDA_TEST_RETRY_DIR"

// The child's store keeps one letter. While the retry of the letter waits for a slot another command fails, so the letter is evicted; then
// the retry is accepted, and the process is killed in its handler.
func TestALetterThatWasEvictedForItsRetrySurvivesTheKillOfTheProcessInTheRetry(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRetriesALetterUntilItIsKilled$")
	cmd.Env = append(os.Environ(), retryDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewScanner(out)
	var printed strings.Builder
	for said.Scan() && said.Text() != "in the retry" {
		fmt.Fprintln(&printed, said.Text())
	}
	require.Equal(t, "in the retry", said.Text(), "the process ended before its retry: %s", &printed)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
	defer func() { require.NoError(t, p.Stop(soon(t))) }()
	var commands []any
	for _, l := range p.Failures().List(letters.Filter{OldestFirst: true}) {
		commands = append(commands, l.Command)
	}
	require.Contains(t, commands, 1)
}

func TestRetriesALetterUntilItIsKilled(t *testing.T) {
	dir := os.Getenv(retryDir)
	if dir == "" {
		t.Skip("runs in the process that is killed")
	}
	blocked, let, tries := make(chan struct{}), make(chan struct{}), 0
	s := stage.Sink("s", func(_ context.Context, n int) error {
		switch {
		case n == 2:
			close(blocked)
			<-let
		case n == 1 && tries > 0:
			fmt.Println("in the retry")
			time.Sleep(time.Hour)
		}
		tries++
		return errNo
	}, stage.Workers(1, 1), stage.Capacity(1))
	other := stage.Sink("other", func(context.Context, int) error { return errNo })
	p := start(t, s, other, pipeline.KeepLetters(letters.Options{Dir: dir, Most: 1}))
	ends := func(n int) { eventually(t, "it has failed", func() bool { return p.Snapshot().Failed == uint64(n) }) }
	require.NoError(t, s.Submit(t.Context(), 1))
	ends(1)
	list := func() []letters.Letter { return p.Failures().List(letters.Filter{}) }
	eventually(t, "its letter is kept", func() bool { return len(list()) == 1 })
	letter := list()[0].ID
	require.NoError(t, s.Submit(t.Context(), 2))
	<-blocked
	require.NoError(t, s.Submit(t.Context(), 4))
	retried := make(chan error)
	go func() { retried <- p.Failures().Retry(t.Context(), letter) }()
	eventually(t, "the retry waits", func() bool { return s.Snapshot().Queue.Submitters == 1 })
	require.NoError(t, other.Submit(t.Context(), 3))
	ends(2)
	eventually(t, "the letter has been evicted", func() bool { _, there := p.Failures().Get(letter); return !there })
	close(let)
	require.NoError(t, <-retried)
	select {}
}
