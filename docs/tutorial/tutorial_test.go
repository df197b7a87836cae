package tutorial

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within is how long a program may take on a slow machine.
const within = 3 * time.Minute

var steps = []string{"1-thumbnails", "2-retries", "3-crash", "4-policy", "5-overload", "6-durable", "7-dashboard"}

func TestEachStepPrintsWhatItsPageSays(t *testing.T) {
	programs := build(t)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(programs, step))
			var complaint strings.Builder
			cmd.Stderr = &complaint
			if step == "7-dashboard" {
				assert.Equal(t, blocks(t, step, "text"), []string{dashboard(t, cmd)}, &complaint)
				return
			}
			out, err := cmd.Output()
			require.NoError(t, err, &complaint)
			assert.Equal(t, blocks(t, step, "text"), []string{string(out)})
		})
	}
}

// dashboard runs the last step on a free port until its page was seen, and
// returns its output with the port of the page of the tutorial.
func dashboard(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	cmd.Args = append(cmd.Args, "-listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	address := strings.TrimSpace(strings.TrimPrefix(first, "open "))
	for _, path := range []string{"/", "/golda/v1/snapshot"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
	require.Eventually(t, func() bool { // a signal before the pipeline has started is an error of it
		answer, err := http.Get(address + "/golda/v1/snapshot") //nolint:noctx // it is answered at once
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		var now struct{ Accepted int }
		return json.NewDecoder(answer.Body).Decode(&now) == nil && now.Accepted > 0
	}, within, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	return "open http://localhost:8077\n" + string(rest)
}

func TestEachStepShowsTheSource(t *testing.T) {
	for _, step := range steps {
		source := read(t, filepath.Join(step, "main.go"))
		shown := blocks(t, step, "go")
		require.NotEmpty(t, shown, step)
		for _, block := range shown {
			assert.True(t, contains(source, block), "%s: main.go has no\n%s", step, block)
		}
		assert.Equal(t, []string{"go run ./docs/tutorial/" + step + "\n"}, blocks(t, step, "sh"))
	}
}

func TestEachStepLeadsToTheNext(t *testing.T) {
	index := read(t, "README.md")
	for n, step := range steps {
		assert.Contains(t, index, "]("+step+")")
		if n+1 < len(steps) {
			assert.Contains(t, read(t, filepath.Join(step, "README.md")), "](../"+steps[n+1]+")")
		}
	}
}

// A step can be read on one screen or two.
func TestEachStepIsShort(t *testing.T) {
	for _, step := range steps {
		assert.LessOrEqual(t, strings.Count(read(t, filepath.Join(step, "main.go")), "\n"), 100, step)
	}
}

// build compiles the programs and returns their directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./...").CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// blocks returns the blocks of one kind on a step's page.
func blocks(t *testing.T, step, kind string) (found []string) {
	t.Helper()
	page := read(t, filepath.Join(step, "README.md"))
	for _, m := range regexp.MustCompile("(?s)\n```"+kind+"\n(.*?)```\n").FindAllStringSubmatch(page, -1) {
		found = append(found, m[1])
	}
	return found
}

// contains reports whether a source has a block, at any depth of indentation.
func contains(source, block string) bool {
	for range 4 {
		if strings.Contains(source, block) {
			return true
		}
		block = regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(block, "\t$1")
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
