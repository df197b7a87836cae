package letters

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
)

func TestASubscriberIsBehindOnlyForLettersThatAreOlderThanATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		heard := 0
		s := newSubscriber(func(stage.DeadLetter) { <-let; heard++ }, nil, nil)
		at := time.Now()
		behind := func(at time.Time) func(*subscriber) bool {
			return func(s *subscriber) bool { return s.behindLocked(at) }
		}
		require.Empty(t, s.close(behind(at.Add(time.Hour))), "it has all letters")
		for range 3 {
			require.True(t, s.notify(stage.DeadLetter{At: at}))
		}
		synctest.Wait()
		require.Empty(t, s.close(behind(at)), "the letters are fresh")
		close(let)
		synctest.Wait()
		require.Equal(t, 3, heard)

		let = make(chan struct{})
		for range 3 {
			require.True(t, s.notify(stage.DeadLetter{At: at}))
		}
		synctest.Wait()
		require.Len(t, s.close(behind(at.Add(1))), 3, "with the letter from which the function has not returned")
		require.Equal(t, 3, s.undelivered())
		require.False(t, s.notify(stage.DeadLetter{At: at}))
		close(let)
	})
}
