package erlda

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A port that failed for reasons of its own would prove nothing. So it must also
// do what the original does well, and fail as the original was seen to fail.

func TestThePortServesWhenNothingGoesWrong(t *testing.T) {
	err := inPort(t, portWorld{}, func(w world) error {
		s, c, err := begin(w, layout{stages: []spec{
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
		s, crashed, err := beginCounted(w)
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
		s, c, err := begin(w, one("s"))
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

func TestThePortGivesTheSameAnswersAgain(t *testing.T) {
	half := func() (n int) {
		err := inPort(t, portWorld{}, func(w world) error {
			s, crashed, err := beginCounted(w)
			crash(s, "s", 5, crashed)
			n = ask(s, "s", 100)
			return err
		})
		require.NoError(t, err)
		return n
	}
	for range 5 {
		require.Equal(t, 50, half())
	}
}

// The row of E15 would prove little if the stage did not really give up.
func TestTheStageOfE15GivesUpIfNobodyMayRestartIt(t *testing.T) {
	err := inHouse(t, func(w world) error {
		l := brittle()
		l.restarts = 0
		s, c, err := begin(w, l)
		if err != nil {
			return err
		}
		err = send(c, "s", 11, job{verb: poison})
		return errors.Join(err, expect("the pipeline lives", false, s.alive()))
	})
	require.NoError(t, err)
}
