package queue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/queue"
)

// The names of the disciplines, which are used in flags and configuration files.
const names = "deadline, fifo, lifo, lifo-adaptive, priority"

func TestEveryNameIsThatOfAValidDiscipline(t *testing.T) {
	require.Equal(t, strings.Split(names, ", "), queue.Names())
	require.True(t, slices.IsSorted(queue.Names()))
	for _, name := range queue.Names() {
		d, err := queue.ByName(name)
		require.NoError(t, err)
		require.Equal(t, name, d.Name())
		require.NoError(t, d.Check())
		require.Contains(t, laws, name, "a new discipline needs a line in the suite")
	}
}

func TestAnUnknownNameIsAnErrorThatListsTheKnownOnes(t *testing.T) {
	for _, name := range []string{"", "FIFO", "lifo-", "adaptive", "priority:cruz"} {
		_, err := queue.ByName(name)
		require.EqualError(t, err, fmt.Sprintf("queue: unknown discipline %q; known are %s", name, names))
		var unknown *queue.UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, name, unknown.Name)
	}
}

func TestANegativeThresholdIsAFault(t *testing.T) {
	require.EqualError(t, queue.AdaptiveLIFO{Above: -1}.Check(), "queue: lifo-adaptive: Above -1 is negative")
	require.NoError(t, queue.AdaptiveLIFO{Above: 1}.Check())
}

// job has a priority and a deadline.
type job struct {
	importance int
	due        time.Time
}

func (j job) Priority() int       { return j.importance }
func (j job) Deadline() time.Time { return j.due }

func TestOnlyDisciplinesThatDependOnTheCommandAreKeyed(t *testing.T) {
	keyed := map[string]bool{"priority": true, "deadline": true}
	for _, name := range queue.Names() {
		d, err := queue.ByName(name)
		require.NoError(t, err)
		_, ok := d.(queue.Keyed)
		assert.Equal(t, keyed[name], ok, name)
	}
}

func TestACommandWithoutPriorityOrDeadlineHasTheZeroKey(t *testing.T) {
	never := time.Time{}
	for name, c := range map[string]struct {
		discipline queue.Keyed
		cmd        any
	}{
		"no priority":                     {queue.Priority{}, "a string"},
		"no command":                      {queue.Priority{}, nil},
		"a priority of zero":              {queue.Priority{}, job{importance: 0}},
		"a function's zero":               {queue.PriorityOf(func(string) int { return 0 }), "a string"},
		"a function of another type":      {queue.PriorityOf(func(int) int { return 1 }), "a string"},
		"no deadline":                     {queue.Deadline{}, "a string"},
		"no command, by deadline":         {queue.Deadline{}, nil},
		"a zero deadline":                 {queue.Deadline{}, job{due: never}},
		"a zero deadline elsewhere":       {queue.Deadline{}, job{due: never.In(time.FixedZone("x", 3600))}},
		"a function's zero time":          {queue.DeadlineOf(func(string) time.Time { return never }), "a string"},
		"a function of another type, too": {queue.DeadlineOf(func(int) time.Time { return time.Unix(1, 0) }), "a string"},
	} {
		assert.Zero(t, c.discipline.Key(c.cmd), name)
	}
}

func TestAHigherPriorityHasASmallerKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int().Draw(t, "a"), rapid.Int().Draw(t, "b")
		d := queue.PriorityOf(func(n int) int { return n })
		require.Equal(t, queue.Priority{}.Key(job{importance: a}), d.Key(a))
		if a > b && b > math.MinInt {
			require.Less(t, d.Key(a), d.Key(b))
		}
	})
	lowest, highest := queue.Priority{}.Key(job{importance: math.MinInt}), queue.Priority{}.Key(job{importance: math.MaxInt})
	require.Positive(t, lowest, "the lowest priority comes after no priority")
	require.Negative(t, highest)
}

func TestAnEarlierDeadlineHasASmallerKey(t *testing.T) {
	row := []time.Time{
		time.Unix(0, 0),
		time.Unix(0, 1),
		time.Date(2015, 9, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2015, 9, 1, 0, 0, 0, 1, time.UTC),
		time.Unix(0, math.MaxInt64-2),
		time.Unix(0, math.MaxInt64-1),
	}
	keys := make([]queue.Key, 0, len(row))
	for _, at := range row {
		byHand := queue.DeadlineOf(func(at time.Time) time.Time { return at })
		key := queue.Deadline{}.Key(job{due: at})
		require.Equal(t, key, byHand.Key(at))
		require.Negative(t, key, "any deadline comes before none")
		keys = append(keys, key)
	}
	require.IsIncreasing(t, keys)

	key := func(at time.Time) queue.Key { return queue.Deadline{}.Key(job{due: at}) }
	require.Equal(t, keys[0], key(time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)), "a date before the range is the most urgent")
	require.Equal(t, keys[0], key(time.Date(-290000, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, keys[5], key(time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC)), "a date after the range is still a deadline")
}

func TestAPartOfLessThanOneInTwoIsAFault(t *testing.T) {
	for n, valid := range map[int]bool{-1: false, 0: true, 1: false, 2: true, 1000: true} {
		err := queue.Priority{}.Every(n).Check()
		if valid {
			require.NoError(t, err, n)
		} else {
			require.ErrorContains(t, err, "Every", n)
		}
	}
}
