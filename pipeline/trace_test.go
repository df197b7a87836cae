package pipeline_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	runtimetrace "runtime/trace"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// regionBegins is a line of go tool trace about the begin of a region.
var regionBegins = regexp.MustCompile(`(?m)^.*RegionBegin.* Type="([^"]*)".*$`)

// regions counts the regions of an execution trace by their names. It reads the trace as go tool trace does.
func regions(t *testing.T, file string) map[string]int {
	t.Helper()
	parse := exec.CommandContext(t.Context(), "go", "tool", "trace", "-d=parsed", file)
	var failed bytes.Buffer
	parse.Stderr = &failed
	text, err := parse.Output()
	require.NoError(t, err, failed.String())
	found := map[string]int{}
	for _, m := range regionBegins.FindAllSubmatch(text, -1) {
		found[string(m[1])]++
	}
	return found
}

// A trace of the runtime has a region for each batch of a stage, with the stage's name: also of one whose handler crashed.
func TestAnExecutionTraceShowsTheVisitsOfEachStage(t *testing.T) {
	if runtimetrace.IsEnabled() {
		t.Skip("the tests are traced")
	}
	save := stage.New("save to disk", fn(echo[int]))
	parse := stage.New("parse", fn(func(_ context.Context, n int) behaviour.Outcome {
		if n == 3 {
			panic("no")
		}
		return behaviour.Forward(save, n)
	}))
	run(t, parse, save)
	var text bytes.Buffer
	require.NoError(t, runtimetrace.Start(&text))
	for n := range 4 {
		_, err := stage.Call[int](soon(t), parse, n)
		require.Equal(t, n == 3, err != nil, err)
	}
	runtimetrace.Stop()
	file := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	found := regions(t, file)
	require.Equal(t, 4, found["parse"], found)
	require.Equal(t, 3, found["save to disk"], found)
}
