package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

func TestAStoreKeepsWhatItWasGivenWhenItIsClosed(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]nats.Store{
		"synced now and then": {}, "synced always": {SyncAlways: true}, "synced seldom": {SyncEvery: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"), "made") // the directory is made
			conn, err := nats.Embed(dir, s)
			require.NoError(t, err)
			publish(t, inlet(t, conn, "numbers", nats.Options[int]{}), 100)
			shut(t, conn)
			conn = embed(t, dir, s)
			numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
			require.Equal(t, nats.Status{Published: 100, Pending: 100}, status(t, numbers))
			publish(t, numbers, 100)
			require.EqualValues(t, 100, numbers.Counts().Duplicates, "it has forgotten the IDs")
			var done tally
			run(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
			require.Equal(t, 100, done.len())
		})
	}
}

// lockEnv names the store that the child process of TestAStoreBelongsToOneProcess opens.
const lockEnv = "GOLDA_TEST_STORE"

func TestAStoreBelongsToOneProcess(t *testing.T) {
	if dir := os.Getenv(lockEnv); dir != "" {
		_, err := nats.Embed(dir, nats.Store{})
		require.ErrorIs(t, err, nats.ErrLocked)
		require.ErrorContains(t, err, dir)
		return
	}
	dir := t.TempDir()
	conn := embed(t, dir, nats.Store{})
	_, err := nats.Embed(dir, nats.Store{})
	require.ErrorIs(t, err, nats.ErrLocked)
	require.ErrorContains(t, err, dir)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), lockEnv+"="+dir)
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	shut(t, conn)
	embed(t, dir, nats.Store{})
}

func TestAStoreThatCannotBeOpenedIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		dir  string
		s    nats.Store
		want string
	}{
		"without a name":     {"", nats.Store{}, "has no name"},
		"that is a file":     {file, nats.Store{}, "not a directory"},
		"in a file":          {filepath.Join(file, "x"), nats.Store{}, "not a directory"},
		"in a pseudo system": {"/proc/golda", nats.Store{}, "no such file"},
		"of wrong options": {
			t.TempDir(),
			nats.Store{MaxBytes: -1, MaxPayload: 1 << 30, SyncAlways: true, SyncEvery: -1},
			"MaxBytes is -1; use 0 for three quarters of the free space\nMaxPayload is 1073741824, and must be at most 67108864; use 0 for 1 MiB\n" +
				"SyncEvery is -1ns; use 0 for a second, or SyncAlways\nSyncAlways and SyncEvery exclude each other",
		},
		"too small for a message": {t.TempDir(), nats.Store{MaxBytes: 1}, "MaxBytes is 1, and must be at least 8192; use 0 for three quarters"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nats.Embed(c.dir, c.s)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "nats: store in \""+c.dir+"\"")
		})
	}
}

func TestAStoreInAReadOnlyDirectoryIsRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := nats.Embed(dir, nats.Store{})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, dir)
}

func TestADamagedStoreIsRefused(t *testing.T) {
	damages := map[string]struct {
		file   string
		damage func([]byte) []byte
	}{
		"the description of a stream":         {"meta.inf", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"the description of a stream cut off": {"meta.inf", func(b []byte) []byte { return b[:len(b)/2] }},
		"the checksum of a description":       {"meta.sum", func(b []byte) []byte { b[0] ^= 1; return b }},
		"a message in the middle":             {"msgs/1.blk", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"the last message":                    {"msgs/1.blk", func(b []byte) []byte { b[len(b)-10] ^= 1; return b }},
		"half of the messages":                {"msgs/1.blk", func(b []byte) []byte { return b[:len(b)/2] }},
		"all messages away":                   {"msgs/1.blk", func([]byte) []byte { return nil }},
		"all messages":                        {"msgs/1.blk", func(b []byte) []byte { clear(b); return b }},
	}
	for name, c := range damages {
		for _, noIndex := range []bool{false, true} {
			if noIndex {
				name += ", without the index"
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				conn, err := nats.Embed(dir, nats.Store{})
				require.NoError(t, err)
				publish(t, inlet(t, conn, "numbers", nats.Options[int]{}), 100)
				shut(t, conn)
				stream := filepath.Join(dir, "jetstream", "$G", "streams", "GOLDA_numbers")
				if noIndex {
					require.NoError(t, os.Remove(filepath.Join(stream, "msgs", "index.db")))
				}
				name := filepath.Join(stream, c.file)
				data, err := os.ReadFile(name)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(name, c.damage(data), 0o600))
				_, err = nats.Embed(dir, nats.Store{})
				require.ErrorIs(t, err, nats.ErrCorrupt)
				require.ErrorContains(t, err, dir)
			})
		}
	}
}

// After a power cut several files may be incomplete that were written at about the same time.
func TestAfterACrashTheEndsOfFilesMayBeDamagedThatWereWrittenLast(t *testing.T) {
	for name, c := range map[string]struct {
		s      nats.Store
		before time.Duration // the last file was written, the first one was
		opens  bool
	}{
		"written at the same time":     {nats.Store{}, 0, true},
		"written a second before":      {nats.Store{}, time.Second, true},
		"written a minute before":      {nats.Store{}, time.Minute, false},
		"synced every minute":          {nats.Store{SyncEvery: time.Minute}, time.Minute, true},
		"each message synced":          {nats.Store{SyncAlways: true}, 0, false},
		"synced often, and long since": {nats.Store{SyncEvery: time.Millisecond}, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conn, err := nats.Embed(dir, nats.Store{})
			require.NoError(t, err)
			texts := inlet(t, conn, "texts", nats.Options[string]{})
			for range 12 {
				require.NoError(t, texts.Publish(t.Context(), "", strings.Repeat("x", 900_000)))
			}
			shut(t, conn)
			require.NoError(t, os.Remove(filepath.Join(dir, "golda.clean")))
			files := filepath.Join(dir, "jetstream", "$G", "streams", "GOLDA_texts", "msgs")
			blocks, err := filepath.Glob(filepath.Join(files, "*.blk"))
			require.NoError(t, err)
			require.Greater(t, len(blocks), 1)
			data, err := os.ReadFile(blocks[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(blocks[0], data[:len(data)-3], 0o600))
			now := time.Now()
			for k, block := range blocks {
				at := now
				if k == 0 {
					at = now.Add(-c.before)
				}
				require.NoError(t, os.Chtimes(block, at, at))
			}
			var log buffer
			c.s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			conn, err = nats.Embed(dir, c.s)
			if !c.opens {
				require.ErrorIs(t, err, nats.ErrCorrupt)
				return
			}
			require.NoError(t, err)
			defer shut(t, conn)
			require.Contains(t, log.String(), "the end of a file of messages cannot be read, and is cut off")
			require.EqualValues(t, 11, status(t, inlet(t, conn, "texts", nats.Options[string]{})).Pending)
		})
	}
}

func TestDamageIsLoggedAlsoIfTheStoreHasNoLogger(t *testing.T) {
	for name, harm := range map[string]struct {
		files, says string
		cut         func([]byte) []byte
	}{
		"the end of the messages": {"msgs/*.blk", "the end of a file of messages cannot be read, and is cut off", func(b []byte) []byte { return b[:len(b)-3] }},
		"a consumer":              {"obs/*/o.dat", "what was delivered of a stream cannot be read, and is forgotten", func(b []byte) []byte { clear(b); return b }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conn, err := nats.Embed(dir, nats.Store{})
			require.NoError(t, err)
			numbers := inlet(t, conn, "numbers", nats.Options[int]{})
			publish(t, numbers, 10)
			var done tally
			p := start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
			eventually(t, "all are done", func() bool { return status(t, numbers).Pending == 0 })
			require.NoError(t, p.Stop(t.Context()))
			publish(t, numbers, 10)
			shut(t, conn)
			require.NoError(t, os.Remove(filepath.Join(dir, "golda.clean")))
			files, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", "GOLDA_numbers", harm.files))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			data, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[0], harm.cut(data), 0o600))
			var log buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			embed(t, dir, nats.Store{})
			require.Contains(t, log.String(), harm.says)
			require.Contains(t, log.String(), "GOLDA_numbers")
		})
	}
}

// The server overwrites the file that says what a consumer has delivered. After a power cut it may be incomplete.
func TestAStoreWhoseConsumerIsDamagedDeliversAgainWhatIsLeft(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"half":  func(b []byte) []byte { return b[:len(b)/2] },
		"zeros": func(b []byte) []byte { clear(b); return b },
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stopped %v", name, clean), func(t *testing.T) {
				dir := t.TempDir()
				conn, err := nats.Embed(dir, nats.Store{})
				require.NoError(t, err)
				o := nats.Options[int]{AckWait: time.Minute}
				numbers := inlet(t, conn, "numbers", o)
				publish(t, numbers, 10)
				deliver(t, conn, 1)
				p := start(t, numbers, stage.Sink("some", func(_ context.Context, k int) error {
					if k > 4 {
						return errors.New("later")
					}
					return nil
				}))
				eventually(t, "some are done", func() bool { return numbers.Counts().Acknowledged == 5 })
				require.NoError(t, p.Stop(t.Context()))
				shut(t, conn)
				file := filepath.Join(dir, "jetstream", "$G", "streams", "GOLDA_numbers", "obs", "golda", "o.dat")
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, damage(data), 0o600))
				if !clean {
					require.NoError(t, os.Remove(filepath.Join(dir, "golda.clean")))
				}
				numbers = inlet(t, embed(t, dir, nats.Store{}), "numbers", o)
				var done tally
				start(t, numbers, stage.Sink("rest", func(_ context.Context, k int) error { done.add(k); return nil }))
				eventually(t, "the rest is done", func() bool { return done.len() == 5 && status(t, numbers).Pending == 0 })
				require.Equal(t, map[int]int{5: 1, 6: 1, 7: 1, 8: 1, 9: 1}, done.of)
			})
		}
	}
}

// As after a kill or a power cut, there is no note that the server has stopped.
func TestAfterACrashOnlyTheEndOfAStoreMayBeDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		left   int // how many messages are left; 0 if the store is refused
	}{
		"no damage":                  {func(b []byte) []byte { return b }, 100},
		"an incomplete last message": {func(b []byte) []byte { return b[:len(b)-3] }, 99},
		"a wrong last message":       {func(b []byte) []byte { b[len(b)-20] ^= 1; return b }, 99},
		"a message in the middle":    {func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, 0},
		"a length in the middle":     {func(b []byte) []byte { b[len(b)/2/148*148+3] ^= 0x40; return b }, 0},
		"the first length":           {func(b []byte) []byte { b[3] ^= 0x40; return b }, 0},
		"a page without data":        {func(b []byte) []byte { clear(b[len(b)-200:]); return b }, 98},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conn, err := nats.Embed(dir, nats.Store{})
			require.NoError(t, err)
			publish(t, inlet(t, conn, "numbers", nats.Options[int]{}), 100)
			shut(t, conn)
			require.NoError(t, os.Remove(filepath.Join(dir, "golda.clean")))
			name := filepath.Join(dir, "jetstream", "$G", "streams", "GOLDA_numbers", "msgs", "1.blk")
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, c.damage(data), 0o600))
			if c.left == 0 {
				_, err := nats.Embed(dir, nats.Store{})
				require.ErrorIs(t, err, nats.ErrCorrupt)
				return
			}
			numbers := inlet(t, embed(t, dir, nats.Store{}), "numbers", nats.Options[int]{})
			require.EqualValues(t, c.left, status(t, numbers).Pending)
		})
	}
}
