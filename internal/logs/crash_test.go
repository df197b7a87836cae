package logs

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/crash"
)

func TestTheStackOfACrashIsWrittenOnceInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		l := NewLimiter(slog.New(slog.NewTextHandler(&out, nil)))
		one, other := &crash.Error{Stage: "s", Value: "no", Stack: []byte("goroutine 1 [running]:\nmain.a()\n\t/a.go:1\n")},
			&crash.Error{Stage: "s", Value: "no", Stack: []byte("goroutine 1 [running]:\nmain.b()\n\t/b.go:1\n")}
		require.NotEqual(t, one.Fingerprint(), other.Fingerprint())
		for _, c := range []struct {
			after time.Duration
			err   *crash.Error
			stack bool
		}{
			{0, one, true}, {0, one, false}, {time.Second, other, true}, {58 * time.Second, one, false},
			{time.Second, one, true}, {0, one, false},
		} {
			time.Sleep(c.after)
			out.all.Reset()
			l.Crash(c.err, false, func() []any { return []any{"letter", 7} })
			text := out.all.String()
			require.Contains(t, text, `level=WARN msg="handler crashed" stage=s attempt=0 again=false letter=7 panic=no`)
			require.Contains(t, text, "fingerprint="+c.err.Fingerprint())
			require.Equal(t, c.stack, strings.Contains(text, "stack="), text)
			require.Equal(t, 1, strings.Count(text, "\n"))
		}
	})
}

func TestFewFingerprintsAreRemembered(t *testing.T) {
	var s shown
	now := time.Now()
	for i := range 3 * mostStacks {
		require.True(t, s.due(strconv.Itoa(i), now))
		require.LessOrEqual(t, len(s.at), mostStacks)
	}
}
