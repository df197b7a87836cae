package letters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

var errRefused = errors.New("refused")

func taken(context.Context, string, any, *inbox.Park, func(error)) error   { return nil }
func refused(context.Context, string, any, *inbox.Park, func(error)) error { return errRefused }

func noCodecs(string) (Codec, error) { return Codec{}, errNone }

var errNone = errors.New("no codec")

// put1 puts a letter into a store.
func put1(l *Store, d stage.DeadLetter, version, fingerprint string) {
	l.Put(&Entry{DeadLetter: d, Version: version, Fingerprint: fingerprint})
}

// testBytes is a bound that no letter of most tests comes near.
const testBytes = 1 << 40

func storeOf(bound int, again Submit) *Store {
	return NewStore("store", Bound{bound, testBytes}, slog.New(slog.DiscardHandler), again)
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fill puts a letter into the store for each word: the first letter is the stage, the
// rest the command. They come a second apart.
func fill(l *Store, words ...string) {
	for _, w := range words {
		put1(l, stage.DeadLetter{
			Pipeline: "p", Stage: w[:1], Command: w[1:], Reason: reason.Stopped, Err: stage.ErrStopped,
			At: noon.Add(time.Duration(l.ids) * time.Second),
		}, "", "")
	}
}

// words is what is in the store, the oldest first.
func words(letters []Letter) string {
	all := make([]string, len(letters))
	for i, letter := range letters {
		all[i] = letter.Stage + fmt.Sprint(letter.Command)
	}
	return strings.Join(all, " ")
}

func oldest(l *Store) string { return words(l.List(Filter{OldestFirst: true})) }

func TestAFullStoreDropsTheOldestLetterOfTheLargestGroup(t *testing.T) {
	for name, row := range map[string]struct {
		bound   int
		in      string
		kept    string
		dropped uint64
	}{
		"letters within the bound stay":            {3, "a1 b2 c3", "a1 b2 c3", 0},
		"of one group, the oldest":                 {3, "a1 a2 a3 a4 a5", "a3 a4 a5", 2},
		"of groups of one letter, the oldest":      {3, "a1 b2 c3 d4", "b2 c3 d4", 1},
		"a flood leaves letters of other groups":   {3, "b1 a2 a3 a4 a5 a6 a7", "b1 a6 a7", 4},
		"also a letter that came before":           {3, "a1 a2 a3 b4", "a2 a3 b4", 1},
		"two floods share":                         {4, "a1 a2 a3 a4 b5 b6 b7 b8", "a3 a4 b7 b8", 4},
		"one that came late may still be the next": {4, "c1 a2 a3 b4 b5", "c1 a3 b4 b5", 1},
		"a store for one keeps the newest":         {1, "a1 b2 a3", "a3", 2},
		"a store for none keeps none":              {0, "a1 b2 a3", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := storeOf(row.bound, taken)
			fill(l, strings.Fields(row.in)...)
			require.Equal(t, row.kept, oldest(l))
			require.Equal(t, row.dropped, l.Dropped())
			require.Equal(t, len(strings.Fields(row.kept)), l.Len())
		})
	}
}

// model is a store that is written without regard to speed.
type model struct {
	bound   int
	letters []Letter
	ids     uint64
	dropped uint64
}

func (m *model) put(w string) {
	m.ids++
	letter := Letter{ID: m.ids}
	letter.Stage, letter.Command = w[:1], w[1:]
	m.letters = append(m.letters, letter)
	if len(m.letters) <= m.bound {
		return
	}
	size := map[string]int{}
	for _, x := range m.letters {
		size[x.Stage]++
	}
	most := slices.Max(slices.Collect(maps.Values(size)))
	m.drop(slices.IndexFunc(m.letters, func(x Letter) bool { return size[x.Stage] == most }))
	m.dropped++
}

func (m *model) drop(i int) {
	if i >= 0 {
		m.letters = slices.Delete(m.letters, i, i+1)
	}
}

func TestTheStoreDoesWhatASimpleModelDoes(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		bound := 1 + r.IntN(12)
		again := func(_ context.Context, _ string, cmd any, _ *inbox.Park, _ func(error)) error {
			if strings.HasSuffix(cmd.(string), "7") {
				return errRefused
			}
			return nil
		}
		l, m := storeOf(bound, again), &model{bound: bound}
		for step := range 300 {
			at := r.IntN(12)
			id := m.ids - uint64(min(at, int(m.ids)))
			there := slices.IndexFunc(m.letters, func(x Letter) bool { return x.ID == id })
			switch r.IntN(8) {
			case 0:
				require.Equal(t, there >= 0, l.Drop(id), "seed %d step %d", seed, step)
				m.drop(there)
			case 1:
				err := l.Retry(t.Context(), id)
				switch {
				case there < 0:
					require.ErrorIs(t, err, ErrNotFound, "seed %d step %d", seed, step)
				case strings.HasSuffix(m.letters[there].Command.(string), "7"):
					require.ErrorIs(t, err, errRefused, "seed %d step %d", seed, step)
				default:
					require.NoError(t, err, "seed %d step %d", seed, step)
					m.drop(there)
				}
			default:
				w := fmt.Sprintf("%c%d", 'a'+rune(r.IntN(1+int(seed%5))), step)
				fill(l, w)
				m.put(w)
			}
			require.Equal(t, words(m.letters), oldest(l), "seed %d step %d", seed, step)
			require.Equal(t, m.dropped, l.Dropped(), "seed %d step %d", seed, step)
			require.Equal(t, len(m.letters), l.Len(), "seed %d step %d", seed, step)
			require.LessOrEqual(t, len(l.slots), bound+1, "seed %d step %d", seed, step)
		}
	}
}

func TestAFilterSelectsLetters(t *testing.T) {
	l := storeOf(10, taken)
	fill(l, "a1", "b2", "a3", "a4")
	put1(l, stage.DeadLetter{Stage: "a", Command: "5", Reason: reason.Crash, At: noon}, "v1", "f00")
	for name, row := range map[string]struct {
		f    Filter
		want string
	}{
		"all, the newest first":     {Filter{}, "a5 a4 a3 b2 a1"},
		"the oldest first":          {Filter{OldestFirst: true}, "a1 b2 a3 a4 a5"},
		"a stage":                   {Filter{Stage: "a"}, "a5 a4 a3 a1"},
		"a stage there is not":      {Filter{Stage: "c"}, ""},
		"a reason":                  {Filter{Reason: reason.Stopped}, "a4 a3 b2 a1"},
		"a fingerprint":             {Filter{Fingerprint: "f00"}, "a5"},
		"stage and reason":          {Filter{Stage: "b", Reason: reason.Crash}, ""},
		"the newest two":            {Filter{Limit: 2}, "a5 a4"},
		"the oldest two":            {Filter{Limit: 2, OldestFirst: true}, "a1 b2"},
		"a condition":               {Filter{If: func(x Letter) bool { return x.ID%2 == 1 }}, "a5 a3 a1"},
		"the limit counts the fit":  {Filter{If: func(x Letter) bool { return x.Stage == "b" }, Limit: 1}, "b2"},
		"a condition uses the box":  {Filter{If: func(x Letter) bool { return l.Len() == 5 && x.ID == 1 }}, "a1"},
		"a limit beyond what there": {Filter{Limit: 9, Stage: "b"}, "b2"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, words(l.List(row.f))) })
	}
}

func TestALetterHasAllItsFields(t *testing.T) {
	l := storeOf(10, taken)
	dead := stage.DeadLetter{
		Pipeline: "p", Stage: "s", Command: 7, Reason: reason.Crash, Err: errRefused, Attempts: 3, Stack: []byte("stack"), At: noon,
	}
	put1(l, dead, "v1", "f00")
	dead.At = noon.Add(time.Hour)
	put1(l, dead, "v2", "f00")
	dead.At = noon
	got, ok := l.Get(1)
	require.True(t, ok)
	require.Equal(t, Letter{
		ID: 1, DeadLetter: dead, Version: "v1", Fingerprint: "f00", Seen: 2, First: noon, Last: noon.Add(time.Hour),
	}, got)
	for _, id := range []uint64{0, 3, math.MaxUint64} {
		_, ok = l.Get(id)
		require.False(t, ok, id)
	}
	l.Drop(1)
	require.False(t, l.Drop(0), "a slot that is not in use is no letter")
}

func TestGroupsCountAllLettersSeenIncludingThoseThatAreGone(t *testing.T) {
	l := storeOf(3, taken)
	fill(l, "a1", "b2", "a3", "a4", "a5") // a1 and a3 give way
	require.NoError(t, l.Retry(t.Context(), 2))
	groups := l.Groups()
	require.Len(t, groups, 2)
	a, b := groups[0], groups[1]
	require.Equal(t, "a", a.Stage)
	require.Equal(t, reason.Stopped, a.Reason)
	require.EqualValues(t, 4, a.Seen)
	require.Equal(t, 2, a.Kept)
	require.Equal(t, noon, a.First)
	require.Equal(t, noon.Add(4*time.Second), a.Last)
	require.EqualValues(t, 5, a.Example.ID)
	require.EqualValues(t, 4, a.Example.Seen)
	require.Equal(t, Group{
		Stage: "b", Reason: reason.Stopped, Seen: 1, First: noon.Add(time.Second), Last: noon.Add(time.Second),
	}, b, "a group is remembered when its letters are gone")
	fill(l, "b6")
	require.EqualValues(t, 2, l.Groups()[0].Seen)
}

func TestGroupsAreBounded(t *testing.T) {
	l := storeOf(2, taken)
	for i := range 1000 {
		put1(l, stage.DeadLetter{Stage: "s", Command: i, At: noon.Add(time.Duration(i) * time.Second)}, "", strconv.Itoa(i%500))
	}
	require.LessOrEqual(t, len(l.groups), minGroups+1)
	require.Equal(t, "s998 s999", oldest(l))
	groups := l.Groups()
	require.Equal(t, "499", groups[0].Fingerprint)
	require.EqualValues(t, 1, groups[0].Seen, "a group that was forgotten begins anew")
	require.Equal(t, 1, groups[0].Kept)
}

// dropLog collects the counts of dropped letters that are logged.
type dropLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []uint64
}

func (h *dropLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *dropLog) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "dropped" {
			h.lines = append(h.lines, a.Value.Uint64())
		}
		return true
	})
	return nil
}

func TestEvictedLettersAreLogged(t *testing.T) {
	h := &dropLog{Handler: slog.DiscardHandler}
	l := NewStore("store", Bound{1, testBytes}, slog.New(h), taken)
	at := func(d time.Duration) {
		put1(l, stage.DeadLetter{Stage: "s", At: noon.Add(d)}, "", "")
	}
	at(0)
	require.Empty(t, h.lines)
	at(1)
	require.Equal(t, []uint64{1}, h.lines, "the first is logged at once")
	for i := range 100 {
		at(time.Duration(i) * time.Millisecond)
	}
	require.Equal(t, []uint64{1}, h.lines, "a flood is logged once a second")
	at(time.Second + 1)
	require.Equal(t, []uint64{1, 101}, h.lines)
	at(time.Second + 2)
	l.Flush()
	require.Equal(t, []uint64{1, 101, 1}, h.lines, "Flush logs the last ones")
	l.Flush()
	require.Len(t, h.lines, 3)
	require.EqualValues(t, 103, l.Dropped())
}

func TestARetryRemovesALetterIfAndOnlyIfItIsAccepted(t *testing.T) {
	type seen struct {
		stage string
		cmd   any
	}
	for name, row := range map[string]struct {
		do   func(l *Store, ctx context.Context) error
		ends error
		err  error
		sent []seen
		left string
	}{
		"accepted":          {func(l *Store, ctx context.Context) error { return l.Retry(ctx, 2) }, nil, nil, []seen{{"b", "2"}}, "a1 a3"},
		"refused":           {func(l *Store, ctx context.Context) error { return l.Retry(ctx, 2) }, errRefused, errRefused, []seen{{"b", "2"}}, "a1 b2 a3"},
		"edited":            {func(l *Store, ctx context.Context) error { return l.RetryAs(ctx, 2, "x") }, nil, nil, []seen{{"b", "x"}}, "a1 a3"},
		"edited to nothing": {func(l *Store, ctx context.Context) error { return l.RetryAs(ctx, 2, nil) }, nil, nil, []seen{{"b", nil}}, "a1 a3"},
		"edited, refused":   {func(l *Store, ctx context.Context) error { return l.RetryAs(ctx, 2, "x") }, errRefused, errRefused, []seen{{"b", "x"}}, "a1 b2 a3"},
		"not there":         {func(l *Store, ctx context.Context) error { return l.Retry(ctx, 9) }, nil, ErrNotFound, nil, "a1 b2 a3"},
		"of no number":      {func(l *Store, ctx context.Context) error { return l.Retry(ctx, 0) }, nil, ErrNotFound, nil, "a1 b2 a3"},
		"twice": {func(l *Store, ctx context.Context) error {
			return errors.Join(l.Retry(ctx, 2), l.Retry(ctx, 2))
		}, nil, ErrNotFound, []seen{{"b", "2"}}, "a1 a3"},
		"again after a refusal": {func(l *Store, ctx context.Context) error {
			return errors.Join(l.Retry(ctx, 2), l.Retry(ctx, 2))
		}, errRefused, errRefused, []seen{{"b", "2"}, {"b", "2"}}, "a1 b2 a3"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []seen
			l := storeOf(5, func(_ context.Context, stage string, cmd any, _ *inbox.Park, _ func(error)) error {
				sent = append(sent, seen{stage, cmd})
				return row.ends
			})
			fill(l, "a1", "b2", "a3")
			err := row.do(l, t.Context())
			if row.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, row.err)
			}
			require.Equal(t, row.sent, sent)
			require.Equal(t, row.left, oldest(l))
			require.Zero(t, l.Dropped())
		})
	}
}

func TestALetterThatIsBeingRetried(t *testing.T) {
	for name, row := range map[string]struct {
		meanwhile func(l *Store, ctx context.Context)
		left      [2]string // if the retry is accepted, and if it is refused
		dropped   [2]uint64
	}{
		"it can be read": {func(l *Store, _ context.Context) {
			if _, ok := l.Get(1); !ok || l.Len() != 1 {
				panic("it is gone")
			}
		}, [2]string{"", "a1"}, [2]uint64{}},
		"no other call can retry it": {func(l *Store, ctx context.Context) {
			if err := l.Retry(ctx, 1); !errors.Is(err, ErrRetrying) {
				panic(err)
			}
			if n, err := l.RetryAll(ctx, Filter{}); n != 0 || err != nil {
				panic(err)
			}
		}, [2]string{"", "a1"}, [2]uint64{}},
		"it is evicted":             {func(l *Store, _ context.Context) { fill(l, "a2", "a3") }, [2]string{"a2 a3", "a2 a3"}, [2]uint64{0, 1}},
		"its slot is another's":     {func(l *Store, _ context.Context) { l.Drop(1); fill(l, "a2") }, [2]string{"a2", "a2"}, [2]uint64{}},
		"another call drops it":     {func(l *Store, _ context.Context) { l.Drop(1) }, [2]string{}, [2]uint64{}},
		"another call clears it":    {func(l *Store, _ context.Context) { l.Clear(Filter{}) }, [2]string{}, [2]uint64{}},
		"it is dead again at once":  {func(l *Store, _ context.Context) { fill(l, "a1") }, [2]string{"a1", "a1 a1"}, [2]uint64{}},
		"another letter is evicted": {func(l *Store, _ context.Context) { fill(l, "b0", "b1") }, [2]string{"b1", "a1 b1"}, [2]uint64{1, 1}},
	} {
		for i, again := range []Submit{taken, refused} {
			t.Run(fmt.Sprintf("%s/%v", name, []string{"accepted", "refused"}[i]), func(t *testing.T) {
				var l *Store
				once := sync.OnceFunc(func() { row.meanwhile(l, t.Context()) })
				l = storeOf(2, func(ctx context.Context, stage string, cmd any, _ *inbox.Park, _ func(error)) error {
					once()
					return again(ctx, stage, cmd, nil, nil)
				})
				fill(l, "a1")
				_ = l.Retry(t.Context(), 1)
				require.Equal(t, row.left[i], oldest(l))
				require.Equal(t, row.dropped[i], l.Dropped())
			})
		}
	}
}

func TestARetryThatPanicsLeavesTheLetter(t *testing.T) {
	l := storeOf(2, func(context.Context, string, any, *inbox.Park, func(error)) error { panic("a gate") })
	fill(l, "a1")
	require.Panics(t, func() { _ = l.Retry(t.Context(), 1) })
	require.Panics(t, func() { _ = l.Retry(t.Context(), 1) }, "no claim on the letter is left")
	require.Equal(t, "a1", oldest(l))
}

func TestRetryAllRetriesTheSelectedLettersOldestFirst(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	var sent []string
	again := func(_ context.Context, stage string, cmd any, _ *inbox.Park, _ func(error)) error {
		sent = append(sent, stage+cmd.(string))
		switch {
		case stage == "b":
			return fmt.Errorf("%s%s: %w", stage, cmd, errRefused)
		case cmd == "end":
			cancel()
		}
		return nil
	}
	for _, row := range []struct {
		name, in string
		f        Filter
		n        int
		err      string
		sent     string
		left     string
	}{
		{"all", "a1 a2 c3", Filter{}, 3, "", "a1 a2 c3", ""},
		{"some", "a1 a2 c3", Filter{Stage: "a"}, 2, "", "a1 a2", "c3"},
		{"the oldest", "a1 a2 c3", Filter{Limit: 1}, 1, "", "a1", "a2 c3"},
		{"none", "", Filter{}, 0, "", "", ""},
		{"a refused letter holds up no other", "b1 a2 b3 c4", Filter{}, 2, "letter 1: b1: refused", "b1 a2 b3 c4", "b1 b3"},
		{"until the context ends, and says so", "a1 aend a2", Filter{}, 2, "letters that were not tried: 1: context canceled", "a1 aend", "a2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			sent = nil
			l := storeOf(9, again)
			fill(l, strings.Fields(row.in)...)
			n, err := l.RetryAll(ended, row.f)
			require.Equal(t, row.n, n)
			if row.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, row.err)
			}
			require.Equal(t, row.sent, strings.Join(sent, " "))
			require.Equal(t, row.left, oldest(l))
		})
	}
}

func TestClearedLettersAreGone(t *testing.T) {
	l := storeOf(9, taken)
	fill(l, "a1", "b2", "a3")
	require.Equal(t, 2, l.Clear(Filter{Stage: "a"}))
	require.Equal(t, "b2", oldest(l))
	require.Equal(t, 1, l.Clear(Filter{}))
	require.Zero(t, l.Clear(Filter{}))
	require.Zero(t, l.Len())
	require.Zero(t, l.Dropped(), "letters that were dropped on purpose are not counted")
	require.NotContains(t, slices.Collect(func(yield func(any) bool) {
		for _, s := range l.slots {
			if !yield(s.dead.Command) {
				return
			}
		}
	}), "2", "a store holds no command that is gone")
}

// However the calls interleave, each letter ends once: it is in the store, was accepted, or was dropped.
func TestTheStoreMayBeUsedByManyGoroutinesAtOnce(t *testing.T) {
	const writers, each = 4, 2000
	var accepted, cleared atomic.Int64
	l := storeOf(64, func(_ context.Context, _ string, cmd any, _ *inbox.Park, _ func(error)) error {
		if n := len(cmd.(string)); n%2 == 0 {
			return errRefused
		}
		accepted.Add(1)
		return nil
	})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				put1(l, stage.DeadLetter{Stage: string(rune('a' + w)), Command: strconv.Itoa(i), At: noon}, "", strconv.Itoa(i%7))
			}
		})
	}
	done := make(chan struct{})
	for r := range 4 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				letters := l.List(Filter{Limit: 3})
				for _, x := range letters {
					switch r {
					case 0:
						_ = l.Retry(t.Context(), x.ID)
					case 1:
						if l.Drop(x.ID) {
							cleared.Add(1)
						}
					case 2:
						_, _ = l.RetryAll(t.Context(), Filter{Limit: 2})
					default:
						cleared.Add(int64(l.Clear(Filter{Stage: "a", Limit: 1})))
						l.Groups()
						_ = l.Export(&bytes.Buffer{}, noCodecs)
					}
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	gone := accepted.Load() + cleared.Load() + int64(l.Dropped()) + int64(l.Len())
	// A letter may be accepted while another goroutine drops it, and then counts twice.
	require.GreaterOrEqual(t, gone, int64(writers*each))
	require.LessOrEqual(t, gone-int64(writers*each), cleared.Load())
	require.LessOrEqual(t, l.Len(), 64)
	kept := 0
	for _, g := range l.Groups() {
		kept += g.Kept
	}
	require.Equal(t, l.Len(), kept)
}

// Odd commands.
type (
	loop   struct{ Next *loop }
	itself map[string]any
	nested []any
	rude   struct{ N int }
	quits  struct{ N int }
	own    struct{ n int }
	hidden struct {
		Name string
		Huge [1 << 20]byte `json:"-"`
		_    chan int
	}
	wrong struct{}
)

func (rude) MarshalJSON() ([]byte, error) { panic("rude") }
func (rude) String() string               { panic("rude") }
func (quits) MarshalJSON() ([]byte, error) {
	runtime.Goexit()
	return nil, nil
}

func (o own) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "{\n\"own\": %d\n}", o.n), nil }
func (wrong) MarshalJSON() ([]byte, error) { return []byte("{]\n"), nil }

func oddCommands() map[string]struct {
	cmd  any
	json string // what is to be in the field command, or
	text string // in the field command_text; "*" for anything
	cut  bool
} {
	ring := &loop{}
	ring.Next = ring
	self := itself{}
	self["self"] = self
	list := nested{1, nil}
	list[1] = list
	bush := nested{nil, nil, nil}
	bush[0], bush[1], bush[2] = bush, bush, bush
	deep := any(1)
	for range 10000 {
		deep = []any{deep}
	}
	type row = struct {
		cmd  any
		json string
		text string
		cut  bool
	}
	return map[string]row{
		"nil":                      {cmd: nil, json: "null"},
		"a number":                 {cmd: 7, json: "7"},
		"a text of two lines":      {cmd: "a\nb\u2028<", json: `"a\nb\u2028\u003c"`},
		"a text that is not UTF-8": {cmd: "a\xffb", text: "a\ufffdb"},
		"a struct":                 {cmd: struct{ A, b int }{1, 2}, json: `{"A":1}`},
		"a pointer":                {cmd: &struct{ A int }{1}, json: `{"A":1}`},
		"bytes":                    {cmd: []byte("ab"), json: `"YWI="`},
		"one that writes itself":   {cmd: own{3}, json: `{"own":3}`},
		"a time":                   {cmd: noon, json: `"2026-01-01T12:00:00Z"`},
		"what json does not see":   {cmd: &hidden{Name: "n"}, json: `{"Name":"n"}`},
		"one that writes no json":  {cmd: wrong{}, text: "{}"},
		"NaN":                      {cmd: math.NaN(), text: "NaN"},
		"NaN inside":               {cmd: struct{ X float64 }{math.Inf(1)}, text: "{X:+Inf}"},
		"a channel":                {cmd: make(chan int), text: "(chan int)"},
		"no channel":               {cmd: (chan int)(nil), text: "<nil>"},
		"a function":               {cmd: func() {}, text: "(func())"},
		"a struct with a channel": {cmd: &struct {
			A int
			C chan int
		}{1, make(chan int)}, text: "&{A:1 C:(chan int)}"},
		"complex":                      {cmd: 1 + 2i, text: "(1+2i)"},
		"a map with odd keys":          {cmd: map[[2]bool]any{{true, false}: uint8(3)}, text: "map[[true false]:3]"},
		"pointers in a circle":         {cmd: ring, text: "&{Next:(*letters.loop)}"},
		"a map in itself":              {cmd: self, text: "*", cut: true},
		"a list in itself":             {cmd: list, text: "*", cut: true},
		"a list three times in itself": {cmd: bush, text: "*", cut: true},
		"very deep":                    {cmd: deep, text: "*", cut: true},
		"a long text":                  {cmd: strings.Repeat("x", 10<<20), text: strings.Repeat("x", maxCommand), cut: true},
		"a long text, not UTF-8":       {cmd: strings.Repeat("\xff", 10<<20), text: "*", cut: true},
		"many bytes":                   {cmd: make([]byte, 10<<20), text: "*", cut: true},
		"many numbers":                 {cmd: make([]int, 10<<20), text: "*", cut: true},
		"many of nothing":              {cmd: [1 << 40]struct{}{}, text: "*", cut: true},
		"a large map":                  {cmd: largeMap(), text: "*", cut: true},
		"one that panics":              {cmd: rude{5}, text: "{N:5}"},
		"one that quits":               {cmd: quits{5}, text: "{N:5}"},
		"a nil pointer":                {cmd: (*loop)(nil), json: "null"},
		"a nil pointer that panics":    {cmd: (*rude)(nil), json: "null"},
	}
}

func largeMap() map[int]string {
	m := map[int]string{}
	for i := range 100000 {
		m[i] = "value"
	}
	return m
}

func TestAnExportIsLinesOfJSONWhateverTheCommandsAre(t *testing.T) {
	rows := oddCommands()
	names := slices.Sorted(maps.Keys(rows))
	l := storeOf(100, taken)
	for _, name := range names {
		put1(l, stage.DeadLetter{
			Pipeline: name, Stage: "s", Command: rows[name].cmd, Reason: reason.Crash, Attempts: 2,
			Err: errRefused, Stack: []byte("goroutine 1\n\tstack"), At: noon,
		}, "v1", "f00")
	}
	var out bytes.Buffer
	require.NoError(t, l.Export(&out, noCodecs))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, len(names))
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			require.Less(t, len(lines[i]), 8*maxCommand)
			var got line
			d := json.NewDecoder(strings.NewReader(lines[i]))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&got))
			row := rows[name]
			require.Equal(t, name, got.Pipeline)
			require.EqualValues(t, i+1, got.ID)
			require.Equal(t, fmt.Sprintf("%T", row.cmd), got.Type)
			require.Equal(t, row.cut, got.Cut)
			if row.text == "*" {
				require.NotEmpty(t, got.Text)
				require.Empty(t, got.Command)
				return
			}
			require.Equal(t, row.json, string(got.Command))
			require.Equal(t, row.text, got.Text)
			require.Equal(t, line{
				ID: got.ID, Pipeline: name, Stage: "s", Reason: reason.Crash, Error: "refused", Attempts: 2,
				At: noon, Version: "v1", Fingerprint: "f00", Seen: uint64(len(names)), First: noon, Last: noon,
				Type: got.Type, Command: got.Command, Text: got.Text, Cut: got.Cut, Stack: "goroutine 1\n\tstack",
			}, got)
		})
	}
}

type angry struct{}

func (angry) Error() string { panic("angry") }

func TestALetterIsWrittenWhateverTheTextOfItsErrorIs(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"nothing":              {nil, ""},
		"one that panics":      {angry{}, "letters.angry {}"},
		"one that says a lot":  {errors.New(strings.Repeat("x", 1<<20)), strings.Repeat("x", plain.Most) + "... (cut)"},
		"one of several lines": {errors.New("a\nb"), "a\nb"},
	} {
		text, err := json.Marshal(Letter{DeadLetter: stage.DeadLetter{Err: row.err}})
		require.NoError(t, err, name)
		var got line
		require.NoError(t, json.Unmarshal(text, &got), name)
		require.Equal(t, row.want, got.Error, name)
	}
}

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestAnExportEndsWhenItsWriterFails(t *testing.T) {
	l := storeOf(9, taken)
	fill(l, "a1", "a2", "a3")
	require.ErrorIs(t, l.Export(&full{1}, noCodecs), errRefused)
	require.NoError(t, l.Export(&full{3}, noCodecs))
}

func TestABoxKeepsALetterInTheStoreOfItsReason(t *testing.T) {
	none := slog.New(slog.DiscardHandler)
	box := NewBox(Bound{9, testBytes}, none, none, taken)
	for why, store := range map[reason.Reason]*Store{
		reason.Crash: box.Quarantine, reason.Error: box.Failures,
		reason.Stopped: box.Dead, reason.Newest: box.Dead, reason.Oldest: box.Dead, reason.Full: box.Dead,
		reason.Disabled: box.Dead, reason.Type: box.Dead, reason.Closed: box.Dead, reason.MaxInFlight: box.Dead,
	} {
		before := store.Len()
		box.Keep(&stage.DeadLetter{Stage: "s", Reason: why}, nil, false, nil)
		require.Equal(t, before+1, store.Len(), why)
	}
	require.Equal(t, 10, box.Quarantine.Len()+box.Failures.Len()+box.Dead.Len())
	closed(t, box)
}

// BenchmarkKeepingALetter measures what a letter adds to the cost of a command that is shed.
func BenchmarkKeepingALetter(b *testing.B) {
	for _, stages := range []int{1, 4, 64} {
		for _, state := range []string{"full", "empty"} {
			b.Run(fmt.Sprintf("stages=%d/store=%s", stages, state), func(b *testing.B) {
				bound := 1024
				if state == "empty" {
					bound = 0
				}
				l := storeOf(bound, taken)
				dead := make([]stage.DeadLetter, stages)
				for i := range dead {
					dead[i] = stage.DeadLetter{
						Pipeline: "p", Stage: fmt.Sprint("s", i), Command: l, Reason: reason.Newest, Err: stage.ErrShed, At: noon,
					}
				}
				for i := range bound {
					put1(l, dead[i%stages], "", "")
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					put1(l, dead[i], "", "")
					if i++; i == stages {
						i = 0
					}
				}
			})
		}
	}
}
