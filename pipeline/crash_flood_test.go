package pipeline_test

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// aCrash is a line about a crash, or at the end about those that were left out, with the number of lines left out.
var aCrash = regexp.MustCompile(`(?m)^.*msg="handler crashed".*?(?: (left_out|left_out_before)=(\d+))?$`)

// Ten thousand crashes are ten lines a second at most, and one stack a minute, and yet each of them is counted: in the log,
// in the accounts, and by the store of letters, which drops the oldest. One crash after another makes the stage pause in
// between; crashes between good commands come in an instant.
func TestTenThousandCrashesNeitherFloodTheLogNorLoseACount(t *testing.T) {
	const crashes, kept = 10_000, 100
	for name, every := range map[string]int{"each command crashes": 1, "every second command crashes": 2} {
		t.Run(name, func(t *testing.T) {
			unraced(t)
			bubbled(t, func(t *testing.T) {
				log := &stallLog{}
				s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
					if n%every == 0 {
						panic("a bad command")
					}
					return behaviour.OK(n)
				})
				p := bubble(t, s, pipeline.Logger(slog.New(slog.NewTextHandler(log, nil))), pipeline.KeepLetters(letters.Options{Most: kept}))
				begin := time.Now()
				for n := range crashes * every {
					require.NoError(t, s.Submit(t.Context(), n))
				}
				require.NoError(t, p.Drain(t.Context()))
				took := time.Since(begin)
				if every > 1 {
					require.Less(t, took, time.Second)
				}
				synctest.Wait()
				end := p.Snapshot()
				require.True(t, end.Balanced(), end.Law())
				require.EqualValues(t, crashes, end.Stages[0].Counts.Crashes)
				require.EqualValues(t, crashes, end.DeadLettered)
				require.EqualValues(t, crashes, end.Stages[0].Reasons.DeadLettered[reason.Crash])
				require.EqualValues(t, crashes*(every-1), end.Replied)
				require.Equal(t, kept, p.Quarantine().Len())
				require.EqualValues(t, crashes-kept, p.Quarantine().Dropped())
				groups := p.Quarantine().Groups()
				require.Len(t, groups, 1)
				require.EqualValues(t, crashes, groups[0].Seen)
				require.NoError(t, p.Stop(t.Context()))

				text := log.all.String()
				lines, told := 0, 0
				for _, m := range aCrash.FindAllStringSubmatch(text, -1) {
					if m[1] != "left_out" {
						lines, told = lines+1, told+1
					}
					if m[2] != "" {
						n, err := strconv.Atoi(m[2])
						require.NoError(t, err)
						told += n
					}
				}
				require.Equal(t, crashes, told)
				most := 10 * (int(took/time.Second) + 1)
				require.LessOrEqual(t, lines, most)
				require.LessOrEqual(t, strings.Count(text, "stack="), int(took/time.Minute)+1)
				require.Less(t, len(text), 400*(most+100), "bytes")
			})
		})
	}
}
