package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// A key's period does not end because there are many keys.
func TestAThrottleKeepsThePeriodsOfManyKeys(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const keys = 30_000
		passed := make([]int, keys)
		of := window.Throttle("throttle", func(n int) int { return n }, time.Hour)
		sink := stage.Sink("sink", func(_ context.Context, n int) error { passed[n]++; return nil }, stage.Workers(1, 1))
		p, err := pipeline.New("test", of.To(sink), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for n := range keys {
			require.NoError(t, of.Submit(t.Context(), n))
		}
		for n := range 11_000 { // a thousand more than may wait
			require.NoError(t, of.Submit(t.Context(), n))
		}
		synctest.Wait()
		for n := range keys {
			if want := 1; n >= 1000 {
				require.Equal(t, want, passed[n], n)
			} else {
				require.Equal(t, want+1, passed[n], n)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, passed[10_999])
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, 1, passed[11_000])
	})
}

// Commands that were added to windows are a success although none of the windows has been closed: the stage does not give up
// because of single bad commands among them.
func TestBadCommandsAmongHeldOnesDoNotBreakTheStage(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.By("words", func(w word) string {
			must(w.text != "x")
			return w.key
		}, window.Bounds[word]{Time: time.Minute})
		b := start(t, of, func(group) string { return "" })
		for range 100 {
			b.submit("a1")
			require.NoError(t, of.Submit(t.Context(), word{"x", "x"}))
		}
		synctest.Wait()
		require.NoError(t, b.p.Err())
		b.stop()
		require.Len(t, b.raw, 1)
		assert.Equal(t, 100, b.raw[0].Count)
		assert.Equal(t, 100, b.p.Quarantine().Len())
	})
}

// A stage whose function crashes for each command gives up as any other does, although a window is open.
func TestAStageWhoseFunctionAlwaysPanicsGivesUpAtItsLimit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.By("words", func(w word) string {
			must(w.text != "x")
			return w.key
		}, window.Bounds[word]{Time: time.Minute}, stage.Restart(stage.RestartPolicy{Limit: 15}))
		b := start(t, of, func(group) string { return "" })
		b.submit("a1")
		for range 100 {
			if of.Submit(t.Context(), word{"x", "x"}) != nil {
				break
			}
		}
		<-b.p.Done()
		var broken *stage.BrokenError
		require.ErrorAs(t, b.p.Err(), &broken)
		require.Equal(t, 17, broken.Crashes)
	})
}

func TestAStageWithWindowsIsInNoGroup(t *testing.T) {
	_, err := pipeline.New("test", pipeline.Group("g", 1, 1, led(by(window.Bounds[word]{Count: 2}))))
	require.EqualError(t, err, `pipeline "test": stage "words": has windows and so a worker of its own, and is in group "g"`)
}

// The other commands of the sum have ended well, so it must be in the letter of the first, which cannot pass it on.
func TestASumWhoseFirstCommandLeavesWhileAddHangsIsInItsLetter(t *testing.T) {
	virtual(t, func(t *testing.T) {
		hangs := make(chan struct{})
		of := window.Aggregate("sum", word.of, func(n int, w word) int {
			if w.text == "a4" {
				<-hangs
			}
			return n + 1
		}, window.Bounds[word]{Count: 2000}, stage.Timeout(time.Minute))
		b := start(t, of, func(w window.Window[string, int]) string { return fmt.Sprint(w.Key, w.Value, w.Count, w.Why) })
		b.submit("a1", "a2", "a3")
		time.Sleep(30 * time.Second)
		b.submit("a4", "a5")
		time.Sleep(time.Hour)
		list := b.p.Failures().List(letters.Filter{})
		require.Len(t, list, 1)
		var lost *window.LostError
		require.ErrorAs(t, list[0].Err, &lost)
		require.ErrorIs(t, lost, stage.ErrTimeout)
		got := lost.Window.(window.Window[string, int])
		assert.Equal(t, 3, got.Value)
		assert.Equal(t, 3, got.Count)
		assert.Equal(t, []string{"3m30s a1 1early"}, b.take(), "a5 has a window of its own")
		close(hangs)
		b.submit("a6", "a7")
		assert.Equal(t, []string{"1h0m30s a2 2early"}, b.stop())
		assert.Equal(t, 1, b.p.Quarantine().Len(), "a4")
	})
}
