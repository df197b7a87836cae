package logs

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestALimiterAllowsSoManyLinesOfAKindInASecond(t *testing.T) {
	l := NewLimiter(slog.New(slog.DiscardHandler))
	few, many := Kind{Message: "few", Max: 1}, Kind{Message: "many"}
	start := time.Now()
	for _, row := range []struct {
		kind    Kind
		at      time.Duration
		calls   int
		allowed int
		leftOut int // reported by the first that is allowed
	}{
		{many, 0, 15, 10, 0},
		{few, 0, 3, 1, 0},
		{many, 999 * time.Millisecond, 1, 0, 0},
		{many, time.Second, 12, 10, 6},
		{few, time.Second, 1, 1, 2},
		{few, time.Minute, 1, 1, 0},
	} {
		allowed, leftOut := 0, 0
		for range row.calls {
			n, ok := l.allow(row.kind, start.Add(row.at))
			leftOut += n
			if ok {
				allowed++
			}
		}
		require.Equal(t, row.allowed, allowed, row)
		require.Equal(t, row.leftOut, leftOut, row)
	}
}

// lines collects what a log writes.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func TestALineSaysSoIfItsValuesCannotBeRead(t *testing.T) {
	for name, attrs := range map[string]func() []any{
		"panics": func() []any { panic("no") },
		"exits":  func() []any { runtime.Goexit(); return nil },
	} {
		var out lines
		NewLimiter(slog.New(slog.NewTextHandler(&out, nil))).Log(Kind{Level: slog.LevelWarn, Message: "m", Stage: "s", Reason: "r"}, attrs)
		require.Contains(t, out.all.String(), "msg=m stage=s reason=r unreadable=", name)
	}
}

func TestFlushReportsTheLinesThatWereLeftOut(t *testing.T) {
	var out lines
	l := NewLimiter(slog.New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		l.Log(Kind{Level: slog.LevelWarn, Message: "m", Max: 1}, func() []any { return nil })
	}
	l.Flush()
	require.Contains(t, out.all.String(), "left_out=2")
}

// angry is a handler that panics.
type angry struct{ slog.Handler }

func (angry) Handle(context.Context, slog.Record) error { panic("no") }
func (angry) Enabled(context.Context, slog.Level) bool  { return true }
func (a angry) WithAttrs([]slog.Attr) slog.Handler      { return a }
func (a angry) WithGroup(string) slog.Handler           { return a }

func TestAShieldRecoversThePanicsOfAHandler(t *testing.T) {
	log := slog.New(Shield(angry{}))
	require.NotPanics(t, func() {
		log.Info("one")
		log.With("a", 1).Info("two")
		log.WithGroup("g").Info("three")
	})
}
