package pipeline_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// upgradingFile has, in a process that is killed, the file of its checkpoint.
const upgradingFile = "GOLDA_TEST_UPGRADING_FILE"

// Processes sum up numbers, upgrade the stages before and behind the windows again and again, and are killed. What they have printed is that
// of one process that does neither.
func TestAnAggregationWhoseStagesAreUpgradedWhileItIsKilledHasTheSameResults(t *testing.T) {
	const n, kills = 2000, 4
	file, l, said := filepath.Join(t.TempDir(), "state"), newLedger(), map[string]int{}
	random := rand.New(rand.NewPCG(1, 1))
	for process := range kills + 1 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUpgradesAnAggregationUntilItIsKilled$")
		cmd.Env = append(os.Environ(), upgradingFile+"="+file)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := 0
		for text, most := bufio.NewScanner(out), 50+random.IntN(50); text.Scan(); lines++ {
			if process < kills && lines == most {
				require.NoError(t, cmd.Process.Kill()) // and read what is in the pipe
			}
			said[text.Text()]++
			l.hear(text.Text())
		}
		err = cmd.Wait()
		require.Equal(t, process < kills, err != nil, "%v after %d lines", err, lines)
	}
	require.Equal(t, 1, said["all is read"])
	require.Positive(t, said["resumed"])
	require.Positive(t, said["upgraded"])
	l.require(t, n)
}

// hear notes what a process has printed.
func (l *ledger) hear(line string) {
	kind, rest, _ := strings.Cut(line, " ")
	var key, first, sum, n int
	switch kind {
	case "span":
		_, _ = fmt.Sscan(rest, &key, &first, &sum, &n)
		l.spans[[2]int{key, first}] = span{first, sum, n}
	case "total":
		_, _ = fmt.Sscan(rest, &key, &sum, &n)
		l.totals[key] = progress{sum, n}
	case "group":
		first, text, _ := strings.Cut(rest, " ")
		at, _ := strconv.Atoi(first)
		l.groups[at] = text
	}
}

func TestUpgradesAnAggregationUntilItIsKilled(t *testing.T) {
	file := os.Getenv(upgradingFile)
	if file == "" {
		t.Skip("runs in the processes that are killed")
	}
	const n = 2000
	numbers := func(ctx context.Context, submit func(int) error) error {
		if source.Position(ctx) > 0 {
			fmt.Println("resumed")
		}
		for i := int(source.Position(ctx)); i < n; i++ {
			if i%20 == 0 {
				time.Sleep(2 * time.Millisecond) // so that there are some checkpoints
			}
			if err := submit(i); err != nil {
				return err
			}
		}
		return nil
	}
	read := stage.Map("read", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(1, 1))
	forward := func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(read, n) }
	before := stage.Func("before", forward, stage.Out(read), stage.Workers(1, 1))
	sums := window.Aggregate("sums", func(n int) int { return n % keys }, span.plus, window.Bounds[int]{Count: 7})
	groups := window.By("groups", func(n int) int { return n % keys }, window.Bounds[int]{Count: 11})
	print := func(_ context.Context, w window.Window[int, span]) behaviour.Outcome {
		fmt.Println("span", w.Key, w.Value.First, w.Value.Sum, w.Value.N)
		return behaviour.OK(nil)
	}
	each := stage.Func("each", print)
	list := stage.Sink("list", func(_ context.Context, w window.Window[int, []int]) error {
		fmt.Println("group", w.Value[0], w.Key, w.Count, w.Value)
		return nil
	})
	total := stage.Keyed("total", func(w window.Window[int, span]) int { return w.Key }, func(key int) *runner {
		return &runner{key: key, out: func(key int, at progress) { fmt.Println("total", key, at.Sum, at.Spans) }}
	})
	p, err := pipeline.New("upgrading", pipeline.Checkpoint(file, 10*time.Millisecond), pipeline.Feed("numbers", before, numbers),
		read.To(sums, groups), sums.To(each, total), groups.To(list), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	go func() {
		for p.Err() == nil && t.Context().Err() == nil {
			_, err := before.Upgrade(t.Context(), func() behaviour.Behaviour[int] { return behaviour.Func[int](forward) })
			if err == nil {
				_, err = each.Upgrade(t.Context(), func() behaviour.Behaviour[window.Window[int, span]] {
					return behaviour.Func[window.Window[int, span]](print)
				})
			}
			if err != nil {
				return // it has stopped
			}
			fmt.Println("upgraded")
			time.Sleep(time.Millisecond)
		}
	}()
	require.NoError(t, p.Run(t.Context()))
	fmt.Println("all is read")
}
