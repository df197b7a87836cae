package letters

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// letterOf returns a dead letter.
func letterOf(stageName string, cmd any) stage.DeadLetter {
	return stage.DeadLetter{Stage: stageName, Command: cmd, Reason: reason.Stopped, Err: stage.ErrStopped, At: noon}
}

func TestLettersAreBoundedInBytesWhateverHoldsThem(t *testing.T) {
	const each = 1 << 20
	type job struct {
		ID   int
		Body []byte
	}
	body := make([]byte, each)
	for name, cmd := range map[string]any{
		"a string":                 string(body),
		"bytes":                    body,
		"a struct with bytes":      job{1, body},
		"bytes in an interface":    struct{ Any any }{job{1, body}},
		"a pointer to an array":    new([each]byte),
		"structs without pointers": make([][2]int64, each/16),
	} {
		t.Run(name, func(t *testing.T) {
			l := NewStore("store", Bound{1024, 64 << 20}, slog.New(slog.DiscardHandler), taken)
			for range 3000 {
				put1(l, letterOf("a", cmd), "", "")
			}
			require.LessOrEqual(t, l.bytes, int64(64<<20))
			require.InDelta(t, 63, l.Len(), 1)
			require.EqualValues(t, 3000-l.Len(), l.Dropped())
			require.Equal(t, l.Len(), l.Clear(Filter{}))
			require.Zero(t, l.bytes)
		})
	}
}

func TestLargeLettersOfOneCauseLeaveTheLettersOfOthers(t *testing.T) {
	l := NewStore("store", Bound{100, 1000}, slog.New(slog.DiscardHandler), taken)
	for i := range 10 {
		put1(l, letterOf("small", fmt.Sprint(i)), "", "")
	}
	for range 20 {
		put1(l, letterOf("large", strings.Repeat("x", 200)), "", "")
	}
	require.Len(t, l.List(Filter{Stage: "small"}), 10)
	require.Len(t, l.List(Filter{Stage: "large"}), 3)
}

// byBytes is a store with both bounds that is written without regard to speed.
type byBytes struct {
	bound   Bound
	letters []Letter
}

func (m *byBytes) put(x Letter) {
	m.letters = append(m.letters, x)
	for m.exceeded() {
		most, at := int64(-1), 0
		for i, x := range m.letters {
			if w := m.weight(x.Stage); w > most {
				most, at = w, i
			}
		}
		m.letters = slices.Delete(m.letters, at, at+1)
	}
}

func (m *byBytes) exceeded() bool {
	_, bytes := m.of("")
	return len(m.letters) > m.bound.Letters || bytes > m.bound.Bytes
}

// of returns how many letters a stage has, or all stages, and their bytes.
func (m *byBytes) of(stageName string) (n, bytes int64) {
	for _, x := range m.letters {
		if stageName == "" || x.Stage == stageName {
			n, bytes = n+1, bytes+ownSize(x.Command)
		}
	}
	return n, bytes
}

func (m *byBytes) weight(stageName string) int64 {
	n, bytes := m.of(stageName)
	return max(n*m.bound.unit(), bytes)
}

func TestAStoreWithBothBoundsDoesWhatASimpleModelDoes(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		bound := Bound{1 + r.IntN(8), int64(100 + r.IntN(800))}
		l, m := NewStore("store", bound, slog.New(slog.DiscardHandler), taken), &byBytes{bound: bound}
		for range 80 {
			d := letterOf(string(rune('a'+r.IntN(3))), strings.Repeat("x", r.IntN(80)))
			put1(l, d, "", "")
			m.put(Letter{DeadLetter: d})
			require.Equal(t, words(m.letters), oldest(l), "seed %d", seed)
			_, bytes := m.of("")
			require.Equal(t, bytes, l.bytes, "seed %d", seed)
		}
	}
}

func TestACommandThatIsLargerThanTheStoreLeavesALetterWithoutIt(t *testing.T) {
	var out bytes.Buffer
	l := NewStore("store", Bound{9, 1000}, slog.New(slog.NewTextHandler(&out, nil)), taken)
	fill(l, "a1", "b"+strings.Repeat("x", 2000), "a2")
	all := l.List(Filter{OldestFirst: true})
	require.Len(t, all, 3, "it evicts no other")
	require.Nil(t, all[1].Command)
	require.ErrorIs(t, all[1].Missing, errTooLarge)
	require.ErrorIs(t, l.Retry(t.Context(), all[1].ID), errTooLarge)
	text, err := all[1].MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), `"command_type":"string"`)
	require.Contains(t, out.String(), `msg="letters are kept without their commands, which are larger than the store" store=store letters=1`)
	require.Zero(t, l.Dropped())
}

func TestAFileOfLettersIsBoundedInBytes(t *testing.T) {
	dir := t.TempDir()
	box := opened(t, dir, 99, taken)
	l := box.Dead
	l.bound.Bytes = 100 << 10
	for range 100 {
		fill(l, "a"+strings.Repeat("x", 10<<10))
	}
	fill(l, "a"+strings.Repeat("x", 200<<10))
	require.LessOrEqual(t, l.disk.file.live, l.bound.Bytes)
	require.LessOrEqual(t, l.disk.file.size, 2*l.bound.Bytes+slack)
	again := opened(t, killed(t, dir), 99, taken).Dead
	require.Len(t, all(again), len(all(l)))
	last := again.List(Filter{Limit: 1})[0]
	require.Nil(t, last.Command)
	require.ErrorContains(t, last.Missing, "about 204816 bytes: the command is larger than the store keeps")
	require.NotZero(t, again.bytes, "the letters that were read count")
}

func TestAFunctionOfTheUserSaysHowLargeACommandIs(t *testing.T) {
	box := NewBox(Bound{1024, 1 << 20}, slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler), taken)
	box.Measure(func(stage string, cmd any) (int, bool) {
		if stage == "b" {
			panic("it cannot say")
		}
		return len(*cmd.(*string)), stage == "a"
	})
	text := strings.Repeat("x", 100<<10)
	for range 50 {
		put1(box.Dead, letterOf("a", &text), "", "")
		put1(box.Quarantine, letterOf("b", &text), "", "")
		put1(box.Failures, letterOf("c", &text), "", "")
	}
	require.Equal(t, 10, box.Dead.Len())
	require.Equal(t, 50, box.Quarantine.Len())
	require.Equal(t, 50, box.Failures.Len())
}

// The race detector does not see what package reflect reads, so this test looks at the sizes: none depends on memory that a program
// shares with its command.
func TestTheSizeOfACommandDependsOnNothingThatItsProgramMayStillChange(t *testing.T) {
	type order struct {
		Customer string
		Lines    []string
	}
	long := order{strings.Repeat("x", 1<<20), []string{strings.Repeat("x", 1<<20)}}
	for name, row := range map[string]struct {
		cmd  any
		want int64
	}{
		"nothing":                  {nil, 0},
		"a number":                 {7, 8},
		"a struct, its own string": {long, 40 + 1<<20 + 16},
		"behind a pointer":         {&long, 8 + 40},
		"no pointer":               {(*order)(nil), 8},
		"elements of a slice":      {[]order{long}, 24 + 40},
		"a map":                    {map[string]order{"a": long}, 8},
		"an interface":             {struct{ Of any }{&long}, 16 + 8 + 40},
		"itself":                   {struct{ Of any }{struct{ Of any }{"abc"}}, 16 + 16 + 16 + 3},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, ownSize(row.cmd)) })
	}
}
