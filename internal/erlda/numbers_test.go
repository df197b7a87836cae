package erlda

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A port that failed for reasons of its own would prove nothing. So it must also do what the original does well, and
// fail as the original was seen to fail.

func TestThePortServesWhenNothingGoesWrong(t *testing.T) {
	err := inPort(t, portWorld{}, func(w world) error {
		s, c, err := start(w, layout{stages: []spec{
			{name: "front", handle: to("back")}, {name: "back", handle: work},
		}})
		if err != nil {
			return err
		}
		_, bad := call(c, "front", job{verb: wrong})
		return errors.Join(
			expect("answers", 100, ask(s, "front", 100)), expect("an error", errWrong, bad),
			expect("workers", 10, s.workers("front")), s.stop())
	})
	require.NoError(t, err)
}

func TestThePortWithAllItsWorkersDeadNeitherAnswersNorRefuses(t *testing.T) {
	err := inPort(t, portWorld{}, func(w world) error {
		s, crashed, err := startCounted(w)
		if err != nil {
			return err
		}
		crash(s, "s", 10, crashed)
		silent := 0
		for i := range 100 {
			if _, err := call(s.dial(), "s", job{id: i}); errors.Is(err, errSilence) {
				silent++
			}
		}
		return errors.Join(expect("silence", 100, silent), expect("workers", 0, s.workers("s")))
	})
	require.NoError(t, err)
}

func TestThePortUnderThreeTimesTheLoadStaysAtTenWorkersAndFullMailboxes(t *testing.T) {
	err := inPort(t, portWorld{}, func(w world) error {
		s, c, err := start(w, one("s"))
		if err != nil {
			return err
		}
		longest := 0
		for range 70 { // 10 workers do 100 in a second; 300 come
			err = errors.Join(err, send(c, "s", 30, job{takes: 100 * time.Millisecond}))
			longest = max(longest, s.(*portSystem).modules["s"].maxWorkerQueue())
			settle(100 * time.Millisecond)
		}
		good := receive(c, 70*30)
		return errors.Join(err, expect("workers", 10, s.workers("s")), expect("longest mailbox", mailboxLimit, longest),
			expect("some were refused", true, good < 70*30))
	})
	require.NoError(t, err)
}

// lostOfHundred counts how many of 100 commands get no answer after 5 of a stage's 10 workers have crashed.
func lostOfHundred(t *testing.T, lost *int) func(world) error {
	t.Helper()
	return func(w world) error {
		s, crashed, err := startCounted(w)
		crash(s, "s", 5, crashed)
		*lost = 100 - ask(s, "s", 100)
		return err
	}
}

// The numbers of docs/erlda.md. Those of the port depend on random numbers, so there are sixty runs of it.
func TestAfterFiveOfTenWorkersCrashedTheOriginalLosesHalfOfTheCommandsAndGoldaNone(t *testing.T) {
	var here, there, sum int
	least, most := 100, 0
	for s := uint64(1); s <= 60; s++ {
		var lost int
		err := inBubble(t, func() world { return &portWorld{node: newNode(s)} }, lostOfHundred(t, &lost))
		require.NoError(t, err)
		sum, least, most = sum+lost, min(least, lost), max(most, lost)
	}
	for range 60 {
		var lost int
		require.NoError(t, inGolda(t, lostOfHundred(t, &lost)))
		here += lost
	}
	require.NoError(t, inPort(t, portWorld{}, lostOfHundred(t, &there)))
	require.Zero(t, here)
	page, err := os.ReadFile("../../docs/erlda.md")
	require.NoError(t, err)
	for _, row := range []string{
		fmt.Sprintf("| ERLDA, with the chance of the tests | %d |", there),
		fmt.Sprintf("| ERLDA, with sixty others | %d on average, from %d to %d |", (sum+30)/60, least, most),
		fmt.Sprintf("| Golda, sixty times | %d |", here),
	} {
		t.Log(row)
		assert.Contains(t, string(page), row+"\n", "the page does not show the counted numbers")
	}
}

func TestThePortGivesTheSameAnswersAgain(t *testing.T) {
	for range 5 {
		var lost int
		require.NoError(t, inPort(t, portWorld{}, lostOfHundred(t, &lost)))
		require.Equal(t, 50, lost)
	}
}

// The row of E15 would prove little if the stage did not really give up.
func TestTheStageOfE15GivesUpWithoutRestarts(t *testing.T) {
	err := inGolda(t, func(w world) error {
		l := brittle()
		l.restarts = 0
		s, c, err := start(w, l)
		if err != nil {
			return err
		}
		err = send(c, "s", 11, job{verb: poison})
		return errors.Join(err, expect("the pipeline lives", false, s.alive()))
	})
	require.NoError(t, err)
}
