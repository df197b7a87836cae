package letters

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/lockfile"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// texts are the codecs of stages whose commands are strings. Stage "x" is not there.
func texts(stage string) (Codec, error) {
	if stage == "x" {
		return Codec{}, errNone
	}
	return JSON(reflect.TypeFor[string]())
}

// opened returns a box with the letters in a directory.
func opened(t *testing.T, dir string, bound int, submit Submit) *Box {
	t.Helper()
	box, err := tryOpen(dir, bound, submit, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, l := range box.stores() {
			if l.disk.file != nil {
				l.disk.file.dirty = false // no need to wait for the disk
			}
		}
		_, _ = box.Close()
	})
	return box
}

func tryOpen(dir string, bound int, submit Submit, log *slog.Logger) (*Box, error) {
	box := NewBox(Bound{bound, testBytes}, log, log, submit)
	box.Await()
	return box, box.Open(Home{Dir: dir, Pipeline: "p", Codecs: texts, Log: log})
}

// copied returns a copy of the files in a directory, as a process that is killed would leave them.
func killed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{deadName, quarantineName, failuresName} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), text, 0o600))
	}
	return to
}

// all are the letters of a store, without the types of their errors, which are texts when they come back, and without what their groups have
// counted, which may include letters that are gone.
func all(l *Store) (texts []string) {
	for _, x := range l.List(Filter{OldestFirst: true}) {
		texts = append(texts, fmt.Sprint(x.ID, x.Stage, x.Command, x.Reason, x.Err, x.Attempts, x.At.UTC(), x.EmittedBy, string(x.Stack),
			x.Version, x.Fingerprint, x.First.UTC()))
	}
	return texts
}

// The model of a file is the store itself: at each moment another process that opens a copy of the file finds the same letters.
func TestAfterAKillAtAnyMomentTheLettersAreThereAgain(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, seed))
		dir, bound := t.TempDir(), 1+r.IntN(8)
		l := opened(t, dir, bound, taken).Dead
		for step := range 60 {
			id := uint64(max(0, int(l.ids)-r.IntN(10)))
			switch r.IntN(8) {
			case 0:
				l.Drop(id)
			case 1:
				l.Clear(Filter{Stage: "a", Limit: 2})
			case 2:
				_ = l.RetryAs(t.Context(), id, "again")
				l.mu.Lock()
				under := l.disk.retried[id]
				l.mu.Unlock()
				if under != nil {
					l.end(id, under)
				}
			default:
				l.Put(&Entry{
					DeadLetter: stage.DeadLetter{
						Stage: string(rune('a' + r.IntN(3))), Command: strings.Repeat("x", r.IntN(100)), Reason: reason.Stopped,
						Err: stage.ErrStopped, At: noon.Add(time.Duration(step) * time.Second), Attempts: step, EmittedBy: "e", Stack: []byte("s"),
					}, Version: "v", Fingerprint: "f",
				})
			}
			if r.IntN(12) == 0 {
				l.mu.Lock()
				l.rewriteLocked()
				l.mu.Unlock()
			}
			if r.IntN(4) > 0 {
				continue
			}
			again := opened(t, killed(t, dir), bound, taken).Dead
			require.Equal(t, all(l), all(again), "seed %d step %d", seed, step)
			fill(again, "a1")
			require.Greater(t, again.ids, l.ids, "seed %d step %d", seed, step)
		}
	}
}

func TestARecordThatWasNotWrittenWholeIsRemoved(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 9, taken).Dead
	fill(l, "a1", "a2")
	end := l.disk.file.size
	fill(l, "a3")
	text, err := os.ReadFile(filepath.Join(dir, deadName))
	require.NoError(t, err)
	for cut := end; cut < int64(len(text)); cut += 7 {
		torn := killed(t, dir)
		require.NoError(t, os.WriteFile(filepath.Join(torn, deadName), text[:cut], 0o600))
		again := opened(t, torn, 9, taken).Dead
		require.Equal(t, "a1 a2", oldest(again), cut)
		fill(again, "b1")
		require.Equal(t, "a1 a2 b1", oldest(opened(t, killed(t, torn), 9, taken).Dead), cut)
		require.NoFileExists(t, filepath.Join(torn, deadName+".damaged"))
	}
}

func TestADamagedRecordCostsItsLetterOnly(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 9, taken).Dead
	fill(l, "a1", "a2", "a3")
	text, err := os.ReadFile(filepath.Join(dir, deadName))
	require.NoError(t, err)
	at := l.slots[1].where
	for _, i := range []int{0, 8, 9, 40, at.n - 2, at.n - 1} {
		hurt := killed(t, dir)
		bad := bytes.Clone(text)
		bad[at.at+int64(i)] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(hurt, deadName), bad, 0o600))
		again := opened(t, hurt, 9, taken).Dead
		want := "a1 a3"
		if i == at.n-1 { // without its end the line has the next one as well
			want = "a1"
		}
		require.Equal(t, want, oldest(again), i)
		if i < at.n-1 {
			aside, err := os.ReadFile(filepath.Join(hurt, deadName+".damaged"))
			require.NoError(t, err)
			require.Equal(t, bad, aside)
		}
		require.Equal(t, want, oldest(opened(t, killed(t, hurt), 9, taken).Dead), i)
	}
}

func TestAFileIsBoundedByItsLetters(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 4, taken).Dead
	for i := range 500 {
		fill(l, "a"+strings.Repeat("x", 20<<10)+fmt.Sprint(i))
		require.LessOrEqual(t, l.disk.file.size, 2*l.disk.file.live+slack+30<<10)
	}
	info, err := os.Stat(filepath.Join(dir, deadName))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(2<<20))
	require.Equal(t, all(l), all(opened(t, killed(t, dir), 4, taken).Dead))
}

// A file that is opened for reading only is like a disk that is full.
func TestALetterThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	dir := t.TempDir()
	box := opened(t, dir, 9, taken)
	l := box.Dead
	fill(l, "a1")
	good := l.disk.file.f
	bad, err := os.Open(good.Name())
	require.NoError(t, err)
	defer bad.Close()
	l.disk.file.f = bad
	fill(l, "a2")
	l.disk.file.err = nil // the disk could not be truncated either
	require.ErrorContains(t, box.Sync(), deadName)
	require.Equal(t, "a1 a2", oldest(l))
	l.disk.file.f, l.disk.file.err = good, nil
	require.NoError(t, box.Sync())
	require.Equal(t, all(l), all(opened(t, killed(t, dir), 9, taken).Dead))
}

func TestARetriedLetterIsInTheFileUntilTheRetryHasEnded(t *testing.T) {
	dir := t.TempDir()
	var ended func(error)
	l := opened(t, dir, 9, func(_ context.Context, _ string, _ any, _ *inbox.Park, f func(error)) error { ended = f; return nil }).Dead
	fill(l, "a1", "a2")
	require.NoError(t, l.Retry(t.Context(), 1))
	require.Equal(t, "a2", oldest(l))
	l.mu.Lock()
	l.rewriteLocked()
	l.mu.Unlock()
	require.Equal(t, "a1 a2", oldest(opened(t, killed(t, dir), 9, taken).Dead))
	ended(nil)
	require.Equal(t, "a2", oldest(opened(t, killed(t, dir), 9, taken).Dead))

	l = opened(t, t.TempDir(), 9, func(_ context.Context, _ string, _ any, _ *inbox.Park, f func(error)) error { f(nil); return nil }).Dead
	fill(l, "a1")
	require.NoError(t, l.Retry(t.Context(), 1), "it has ended before Retry returns")
	require.Zero(t, l.disk.file.live)
}

func TestADirectoryBelongsToOnePipelineAtATime(t *testing.T) {
	dir := t.TempDir()
	box := opened(t, dir, 9, taken)
	log := slog.New(slog.DiscardHandler)
	_, err := tryOpen(dir, 9, taken, log)
	require.ErrorIs(t, err, lockfile.ErrLocked)
	require.ErrorContains(t, err, dir)
	closed(t, box)
	other := NewBox(Bound{9, testBytes}, log, log, taken)
	require.ErrorContains(t, other.Open(Home{Dir: dir, Pipeline: "q", Codecs: texts, Log: log}), `of pipeline "p", and this is pipeline "q"`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, deadName), lineOfGone(1), 0o600))
	_, err = tryOpen(dir, 9, taken, log)
	require.ErrorContains(t, err, "no file of letters")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = tryOpen(file, 9, taken, log)
	require.ErrorContains(t, err, file)
}

func TestALetterWithoutItsCommandStays(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 9, taken).Dead
	put1(l, stage.DeadLetter{Stage: "x", Command: "a", Reason: reason.Stopped, At: noon}, "", "")
	put1(l, stage.DeadLetter{Stage: "a", Command: 7, Reason: reason.Type, At: noon}, "", "")
	put1(l, stage.DeadLetter{Stage: "a", Command: "7", Reason: reason.Stopped, Err: stage.ErrStuck, At: noon}, "", "")
	for range 2 { // also if it was read without its command before
		again := opened(t, killed(t, dir), 9, taken).Dead
		list := again.List(Filter{OldestFirst: true})
		require.Len(t, list, 3)
		require.ErrorContains(t, list[0].Missing, "no codec")
		require.ErrorContains(t, list[1].Missing, "the stage takes string, and the command is a int")
		require.ErrorContains(t, list[2].Missing, "had not returned")
		for _, x := range list {
			require.Nil(t, x.Command)
			require.ErrorIs(t, again.Retry(t.Context(), x.ID), x.Missing)
			text, err := x.MarshalJSON()
			require.NoError(t, err)
			require.Contains(t, string(text), x.Missing.Error())
		}
		require.NoError(t, again.RetryAs(t.Context(), 2, "seven"))
	}
}

func TestALetterOfASourceThatKeepsItsOwnIsInMemoryOnly(t *testing.T) {
	dir := t.TempDir()
	box := opened(t, dir, 9, taken)
	box.Keep(&stage.DeadLetter{Stage: "a", Command: "1", Reason: reason.Crash}, nil, true, nil)
	require.Equal(t, 1, box.Quarantine.Len())
	require.Zero(t, opened(t, killed(t, dir), 9, taken).Quarantine.Len())
}

func TestAfterTheEndLettersStayInTheFile(t *testing.T) {
	dir := t.TempDir()
	box := opened(t, dir, 9, taken)
	fill(box.Dead, "a1")
	closed(t, box)
	require.False(t, box.Dead.Drop(1))
	require.Zero(t, box.Dead.Clear(Filter{}))
	_, err := box.Dead.Import(strings.NewReader(`{"stage":"a","reason":"stopped","command_type":"string","command":"2"}`), texts)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, "a1", oldest(box.Dead))
	require.Equal(t, "a1", oldest(opened(t, dir, 9, taken).Dead))
}

func TestAStopSaysWhichLettersEndWithTheProcess(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	box := NewBox(Bound{99, testBytes}, log, log, taken)
	for range 20 {
		box.Keep(&stage.DeadLetter{Stage: "post", Command: "1", Reason: reason.Stopped}, nil, false, nil)
	}
	box.Keep(&stage.DeadLetter{Stage: "parse", Command: "1", Reason: reason.Expired}, nil, false, nil)
	box.Keep(&stage.DeadLetter{Stage: "parse", Command: "1", Reason: reason.Expired}, nil, true, nil)
	closed(t, box)
	require.Contains(t, out.String(), `store="dead letters" letters=21 of="post (stopped) 20, parse (expired) 1"`)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestImportHasWhatExportHasWritten(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	l, again := NewBox(Bound{9, testBytes}, log, log, taken).Dead, NewBox(Bound{9, testBytes}, log, log, taken).Dead
	fill(l, "a1", "b"+strings.Repeat("x", 2*maxCommand), "x3")
	var out bytes.Buffer
	require.NoError(t, l.Export(&out, texts))
	n, err := again.Import(strings.NewReader("no letter\n\n"+out.String()+`{"stage":"a","reason":"error","command":"1"}`), texts)
	require.Equal(t, 2, n)
	require.ErrorContains(t, err, "line 1: ")
	require.ErrorContains(t, err, `line 5: letter 3 of stage "x": no codec`)
	require.ErrorContains(t, err, `line 6: a letter with the reason "error" belongs to the failures`)
	require.Equal(t, all(l)[:2], all(again))
}

// The store is full, and evicts a letter while its retry waits for a slot.
func TestALetterThatIsEvictedDuringItsRetryStaysInTheFileUntilTheRetryHasEnded(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		t.Run(fmt.Sprintf("accepted %v", accepted), func(t *testing.T) {
			dir := t.TempDir()
			var box *Box
			var end func(error)
			box = opened(t, dir, 1, func(_ context.Context, _ string, _ any, _ *inbox.Park, ended func(error)) error {
				fill(box.Dead, "atwo") // evicts the letter that is retried
				require.Equal(t, []any{"one", "two"}, commandsAfterKill(t, dir))
				if end = ended; !accepted {
					return errRefused
				}
				return nil
			})
			fill(box.Dead, "aone")
			err := box.Dead.Retry(t.Context(), 1)
			if !accepted {
				require.ErrorIs(t, err, errRefused)
				require.Equal(t, []any{"two"}, commandsAfterKill(t, dir), "it has no place in the store any more")
				require.EqualValues(t, 1, box.Dead.Dropped())
				return
			}
			require.NoError(t, err)
			require.Equal(t, []any{"one", "two"}, commandsAfterKill(t, dir))
			box.Dead.mu.Lock()
			box.Dead.rewriteLocked()
			box.Dead.mu.Unlock()
			require.Equal(t, []any{"one", "two"}, commandsAfterKill(t, dir))
			end(nil)
			require.Equal(t, []any{"two"}, commandsAfterKill(t, dir))
			require.Zero(t, box.Dead.Dropped())
		})
	}
}

// commandsAfterKill returns the commands of the dead letters that a process would find if the present one was killed.
func commandsAfterKill(t *testing.T, dir string) (commands []any) {
	t.Helper()
	for _, l := range opened(t, killed(t, dir), 100, taken).Dead.List(Filter{OldestFirst: true}) {
		commands = append(commands, l.Command)
	}
	return commands
}

// closed closes a box that has written all of its letters.
func closed(t *testing.T, box *Box) {
	t.Helper()
	unwritten, err := box.Close()
	require.NoError(t, err)
	require.Zero(t, unwritten)
}

func TestACloseSaysHowManyLettersCouldNotBeWritten(t *testing.T) {
	box := opened(t, t.TempDir(), 9, taken)
	l := box.Dead
	fill(l, "a1")
	good := l.disk.file.f
	bad, err := os.Open(good.Name())
	require.NoError(t, err)
	defer good.Close()
	l.disk.file.f = bad
	fill(l, "a2", "a3")
	unwritten, err := box.Close()
	require.Error(t, err)
	require.Equal(t, 2, unwritten)
}

func TestLettersThatAStoreWithAFileDropsAreLoggedWheneverTheirNumberHasDoubled(t *testing.T) {
	h := &dropLog{Handler: slog.DiscardHandler}
	box, err := tryOpen(t.TempDir(), 1, taken, slog.New(h))
	require.NoError(t, err)
	for i := range 101 {
		put1(box.Dead, stage.DeadLetter{Stage: "s", Command: "a", At: noon.Add(time.Duration(i))}, "", "")
	}
	require.Equal(t, []uint64{1, 1, 2, 4, 8, 16, 32}, h.lines)
	closed(t, box)
	require.Equal(t, uint64(36), h.lines[len(h.lines)-1], "the last ones are logged at the end")
}
