package stagetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
	"github.com/golda-dev/golda/worker"
)

// MayCrash lets handlers crash: without it, [Run] fails a test in which a
// handler has crashed other than by a fault of [Inject]. It is a part for
// [Run].
func MayCrash() pipeline.Part { return crashing{} }

type crashing struct{}

// Part makes it a part of a pipeline.
func (crashing) Part(part.Seal) {}

// mayCrash removes MayCrash from the parts, and reports whether it was there.
func mayCrash(parts []pipeline.Part) (rest []pipeline.Part, may bool) {
	is := func(p pipeline.Part) bool { _, is := p.(crashing); return is }
	return slices.DeleteFunc(slices.Clone(parts), is), slices.ContainsFunc(parts, is)
}

// realNow reads the clock of the machine, in a bubble too.
func realNow() time.Time {
	var now syscall.Timeval
	if syscall.Gettimeofday(&now) != nil {
		return time.Now()
	}
	return time.Unix(int64(now.Sec), int64(now.Usec)*int64(time.Microsecond)) //nolint:unconvert // not on all systems
}

// system returns the actor system of the trial: in a bubble one of its own,
// because no goroutine outside may serve it.
func (t *Trial) system() pipeline.Part {
	if t.virtual {
		return pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler)))
	}
	return pipeline.System(oracle.System())
}

// virtualEvery is the pause between two snapshots in a bubble, where a long
// sleep of a test takes as many of them.
const virtualEvery = 100 * time.Millisecond

func (t *Trial) pause() time.Duration {
	if t.virtual {
		return virtualEvery
	}
	return snapshotEvery
}

// injectors are the injectors of each test.
var injectors struct {
	mu sync.Mutex
	of map[testing.TB][]*Injector
}

// remember makes an injector known to the trials of its test.
func (in *Injector) remember(tb testing.TB) {
	tb.Helper()
	injectors.mu.Lock()
	defer injectors.mu.Unlock()
	if injectors.of == nil {
		injectors.of = map[testing.TB][]*Injector{}
	}
	injectors.of[tb] = append(injectors.of[tb], in)
	tb.Cleanup(func() {
		injectors.mu.Lock()
		defer injectors.mu.Unlock()
		delete(injectors.of, tb)
	})
}

// foreseen reports whether an injector of a test has caused a crash with that
// text.
func foreseen(tb testing.TB, text string) bool { //nolint:thelper // it fails no test
	if strings.Contains(text, "stagetest: injected ") {
		return true
	}
	injectors.mu.Lock()
	defer injectors.mu.Unlock()
	return slices.ContainsFunc(injectors.of[tb], func(in *Injector) bool {
		return strings.Contains(text, worker.ErrGoexit.Error()) && in.Count(Goexit) > 0 ||
			strings.Contains(text, stage.ErrStuck.Error()) && in.Count(Delay)+in.Count(Hang)+in.Count(Stuck) > 0
	})
}

// crashes returns the breach of handlers that have crashed by themselves. It
// finds crashes that the pipeline has logged, and crashes that have left a
// letter, because the pipeline does not log each crash of a flood.
func (t *Trial) crashes() *BreachError {
	if t.mayCrash {
		return nil
	}
	var found []string
	for _, c := range t.story.crashes() {
		if !foreseen(t.tb, c) {
			found = append(found, c)
		}
	}
	for _, store := range []*letters.Store{t.DeadLetters(), t.Quarantine()} {
		for _, l := range store.List(letters.Filter{}) {
			crash, crashed := errors.AsType[*stage.CrashError](l.Err)
			if crashed && !foreseen(t.tb, crash.Error()) {
				found = append(found, fmt.Sprintf("%v\n%s", crash, l.Stack))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &BreachError{oracle.Crashes, found[len(found)-1] + "\nA test that expects crashes has stagetest.MayCrash()."}
}

// mostLetters is how many letters of each store a failing test logs.
const mostLetters = 5

// evidence returns what the pipeline has logged and its letters, for the log of
// a test that fails.
func (t *Trial) evidence() string {
	var b strings.Builder
	b.WriteString(t.Snapshot().Law() + "\n")
	for _, store := range []struct {
		name    string
		letters *letters.Store
	}{{"dead letters", t.DeadLetters()}, {"quarantine", t.Quarantine()}, {"failures", t.Failures()}} {
		list := store.letters.List(letters.Filter{})
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s, %d:\n", store.name, len(list))
		for _, l := range list[:min(len(list), mostLetters)] {
			fmt.Fprintf(&b, "  stage %q, %v at try %d of %+v: %v\n", l.Stage, l.Reason, l.Attempts, l.Command, l.Err)
			if l.Fingerprint != "" && l.Stack != nil {
				fmt.Fprintf(&b, "    %s\n", l.Fingerprint)
			}
		}
	}
	b.WriteString(t.story.String())
	return b.String()
}

// mostLines is how many lines of its log a trial keeps.
const mostLines = 100

// story is the end of a pipeline's log. It is the handler of its logger.
type story struct {
	mu      sync.Mutex // guards all fields below
	lines   []string
	more    int // lines before them
	crashed []string
}

// crashes returns the first crashes that were logged.
func (s *story) crashes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.crashed)
}

// String returns the lines.
func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return "the pipeline has logged nothing"
	}
	head := "the log:\n"
	if s.more > 0 {
		head = fmt.Sprintf("the log, after %d lines that are left out:\n", s.more)
	}
	return head + "  " + strings.Join(s.lines, "\n  ")
}

// Enabled accepts what a pipeline logs by default.
func (*story) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle keeps a record.
func (s *story) Handle(ctx context.Context, rec slog.Record) error { return s.keep(ctx, rec, nil) }

func (s *story) keep(_ context.Context, rec slog.Record, attrs []slog.Attr) error {
	line := fmt.Sprintf("%s %s", rec.Level, rec.Message)
	add := func(a slog.Attr) bool {
		if a.Key != "stack" {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
		return true
	}
	for _, a := range attrs {
		add(a)
	}
	rec.Attrs(add)
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Message == "handler crashed" && strings.Contains(line, " panic=") && len(s.crashed) < mostLines {
		s.crashed = append(s.crashed, line)
	}
	if len(s.lines) == mostLines {
		s.lines = slices.Delete(s.lines, 0, 1)
		s.more++
	}
	s.lines = append(s.lines, line)
	return nil
}

// WithAttrs returns a handler that keeps the attributes with each record.
func (s *story) WithAttrs(attrs []slog.Attr) slog.Handler { return &storyWith{s, attrs} }

// WithGroup returns the story: groups are left out.
func (s *story) WithGroup(string) slog.Handler { return s }

// storyWith is a story with attributes.
type storyWith struct {
	*story

	attrs []slog.Attr
}

// Handle keeps a record.
func (s *storyWith) Handle(ctx context.Context, rec slog.Record) error {
	return s.keep(ctx, rec, s.attrs)
}

// WithAttrs returns a handler with more attributes.
func (s *storyWith) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &storyWith{s.story, slices.Concat(s.attrs, attrs)}
}

// WithGroup returns s.
func (s *storyWith) WithGroup(string) slog.Handler { return s }
