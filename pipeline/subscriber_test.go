package pipeline_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// sheds returns a pipeline of a stage that accepts one command, which waits, and sheds all others.
func sheds(t *testing.T, parts ...pipeline.Part) (p *pipeline.Pipeline, shed func(n int), resume func()) {
	t.Helper()
	s := stage.Func("s", echo[int], stage.Capacity(1), stage.Overflow(overflow.DropNewest))
	p = bubble(t, append(parts, s)...)
	require.NoError(t, p.Pause(s))
	require.NoError(t, s.Submit(t.Context(), -1))
	shed = func(n int) {
		for i := range n {
			require.NoError(t, s.Submit(t.Context(), i))
		}
	}
	return p, shed, func() { require.NoError(t, p.Resume(s)) }
}

func TestAHardStopStartsNoGoroutineForEachLetterOfASlowSubscriber(t *testing.T) {
	commands := fewer(20_000)
	block := make(chan struct{})
	s := stage.Func("s", echo[int], stage.Capacity(commands))
	p := start(t, s, pipeline.Grace(0), pipeline.KeepLetters(letters.Options{Most: commands}), pipeline.DeadLetters(func(stage.DeadLetter) { <-block }))
	require.NoError(t, p.Pause(s))
	_, err := s.SubmitAll(t.Context(), make([]int, commands)...)
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	var report *pipeline.StopError
	require.ErrorAs(t, p.Stop(now), &report)
	require.Less(t, runtime.NumGoroutine(), before+100, "one goroutine for one subscriber, not one for each letter")
	close(block)
	require.Equal(t, commands, report.Unheard)
	require.Equal(t, commands, p.DeadLetters().Len(), "letters that were not delivered are kept")
}

func TestASubscriberIsCalledForOneLetterAtATimeAndInOrder(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		const letters = 3000 // more than fit into the queue
		var at, next atomic.Int64
		p, shed, resume := sheds(t, pipeline.DeadLetters(func(l stage.DeadLetter) {
			require.EqualValues(t, 1, at.Add(1))
			time.Sleep(time.Millisecond)
			if l.Reason == reason.Newest {
				require.EqualValues(t, next.Add(1)-1, l.Command)
			}
			at.Add(-1)
		}))
		shed(letters)
		resume()
		require.NoError(t, p.Stop(t.Context()), "it waits until all letters are delivered")
		require.EqualValues(t, letters, next.Load())
	})
}

func TestASubscriberThatDoesNotReturnHoldsUpThePipelineOnceForFiveSeconds(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		log := &scribe{lines: map[string]int{}}
		block := make(chan struct{})
		var told atomic.Int64
		p, shed, resume := sheds(t, pipeline.Logger(slog.New(log)), pipeline.KeepLetters(letters.Options{Most: 5000}), pipeline.DeadLetters(func(stage.DeadLetter) {
			<-block
			told.Add(1)
		}))
		begin := time.Now()
		shed(3000)
		require.Equal(t, 5*time.Second, time.Since(begin))
		lines, _ := log.told("dead-letter subscriber does not return")
		require.Equal(t, 1, lines)
		lines, _ = log.told("dead letter")
		require.Equal(t, 10, lines, "letters that are not delivered are logged")
		close(block)
		synctest.Wait()
		require.EqualValues(t, 1025, told.Load(), "one, and those in the queue")
		shed(1)
		synctest.Wait()
		require.EqualValues(t, 1026, told.Load(), "letters are delivered again")
		require.Equal(t, 3001, p.DeadLetters().Len())
		resume()
		var report *pipeline.StopError
		err := p.Stop(t.Context())
		require.ErrorAs(t, err, &report)
		require.EqualError(t, err, `pipeline "bubble": stopped; a subscriber did not take 1975 letters`)
	})
}

func TestASoftStopWaitsNoLongerThanFiveSecondsForASubscriberThatDoesNotReturn(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		block := make(chan struct{})
		p, shed, resume := sheds(t, pipeline.DeadLetters(func(stage.DeadLetter) { <-block }))
		shed(2)
		resume()
		begin := time.Now()
		var report *pipeline.StopError
		require.ErrorAs(t, p.Stop(t.Context()), &report)
		require.Equal(t, 5*time.Second, time.Since(begin).Round(time.Millisecond))
		require.Equal(t, 2, report.Unheard)
		close(block)
	})
}

func TestTheWaitForSubscribersEndsWithTheContextOfASoftStop(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		block := make(chan struct{})
		p, shed, resume := sheds(t, pipeline.Grace(time.Second), pipeline.DeadLetters(func(stage.DeadLetter) { <-block }))
		shed(2)
		resume()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var report *pipeline.StopError
		require.ErrorAs(t, p.Stop(ctx), &report)
		require.Equal(t, 3*time.Second, time.Since(begin).Round(time.Millisecond))
		require.Equal(t, 2, report.Unheard)
		close(block)
	})
}

func TestASubscriberThatEndsItsGoroutineIsCalledForTheNextLetter(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("no") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				log := &scribe{lines: map[string]int{}}
				var told atomic.Int64
				p, shed, resume := sheds(t, pipeline.Logger(slog.New(log)), pipeline.DeadLetters(func(stage.DeadLetter) {
					told.Add(1)
					end()
				}))
				shed(5)
				resume()
				require.NoError(t, p.Stop(t.Context()))
				require.EqualValues(t, 5, told.Load())
				lines, _ := log.told("dead-letter subscriber crashed")
				require.Equal(t, 5, lines)
				lines, _ = log.told("dead letter")
				require.Equal(t, 5, lines)
			})
		})
	}
}

// A subscriber may use the pipeline: for a while it retries each letter, whose command crashes again.
func TestASubscriberMayRetryTheLetterThatItIsCalledFor(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var p *pipeline.Pipeline
		var told atomic.Int64
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("no") },
			stage.Restart(stage.RestartPolicy{Limit: 1000}))
		p = bubble(t, s, pipeline.DeadLetters(func(stage.DeadLetter) {
			if told.Add(1) <= 100 {
				for _, l := range p.Quarantine().List(letters.Filter{}) {
					require.NoError(t, p.Quarantine().Retry(t.Context(), l.ID))
				}
			}
		}))
		require.NoError(t, s.Submit(t.Context(), 1))
		for told.Load() <= 100 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, 1, p.Quarantine().Len())
	})
}
