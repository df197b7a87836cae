package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// hook is a command that letters keep.
type hook struct {
	ID   int
	Body []byte
}

// The webhooks fail, the checkpoint passes them, and the process is replaced.
func TestLettersSurviveARestartBehindACheckpointThatHasPassedThem(t *testing.T) {
	dir := t.TempDir()
	var position atomic.Int64
	var up atomic.Bool
	var sent atomic.Int64
	open := func() *pipeline.Pipeline {
		post := stage.Sink("post", func(_ context.Context, h *hook) error {
			if !up.Load() {
				return fmt.Errorf("hook %d: %w", h.ID, errNo)
			}
			require.Equal(t, fmt.Sprint("body ", h.ID), string(h.Body))
			sent.Add(1)
			return nil
		})
		hooks := make([]*hook, 20)
		for i := range hooks {
			hooks[i] = &hook{i, []byte(fmt.Sprint("body ", i))}
		}
		return start(t, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Feed("hooks", post, source.Checkpoint(source.Slice(hooks), position.Load(),
			func(_ context.Context, at int64) error { position.Store(at); return nil })))
	}
	p := open()
	eventually(t, "the hooks have failed", func() bool { return p.Snapshot().Failed == 20 })
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 20, position.Load())

	p = open()
	list := p.Failures().List(letters.Filter{OldestFirst: true})
	require.Len(t, list, 20)
	require.Equal(t, "post", list[0].Stage)
	require.Equal(t, reason.Error, list[0].Reason)
	require.EqualValues(t, 20, list[0].Seen)
	require.ErrorContains(t, list[0].Err, "hook ")
	require.False(t, list[0].At.IsZero())
	require.Len(t, p.Failures().Groups(), 1)
	up.Store(true)
	require.True(t, p.Failures().Drop(list[0].ID))
	n, err := p.Failures().RetryAll(context.Background(), letters.Filter{})
	require.NoError(t, err)
	require.Equal(t, 19, n)
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 19, sent.Load())

	p = open()
	require.Zero(t, p.Failures().Len())
	require.NoError(t, p.Stop(soon(t)))
}

// The next process has the commands from the checkpoint, so a letter that is tried again would be a second effect.
func TestCommandsThatAHardStopEndsBehindACheckpointAreNoLettersOfTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	var position atomic.Int64
	begun := make(chan struct{}, 100)
	s := stage.Sink("s", func(ctx context.Context, n int) error {
		begun <- struct{}{}
		<-ctx.Done() // until the hard stop
		return context.Cause(ctx)
	}, stage.Workers(2, 2))
	feed := source.Checkpoint(source.Slice(make([]int, 50)), 0, func(_ context.Context, at int64) error { position.Store(at); return nil })
	p := start(t, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Feed("feed", s, feed))
	<-begun
	<-begun
	ended, stop := context.WithCancel(context.Background())
	stop()
	require.Error(t, p.Stop(ended))
	require.Zero(t, position.Load())
	require.Positive(t, p.DeadLetters().Len(), "the letters are there until the process ends")

	p = start(t, pipeline.KeepLetters(letters.Options{Dir: dir}), stage.Sink("s", func(context.Context, int) error { return nil }))
	require.Zero(t, p.DeadLetters().Len())
	require.Zero(t, p.Failures().Len())
	require.NoError(t, p.Stop(soon(t)))
}

// webhook is a command that JSON does not keep.
type webhook struct{ url string }

func TestCommandsThatJSONDoesNotKeepNeedACodec(t *testing.T) {
	post := stage.Sink("post", func(context.Context, webhook) error { return errNo })
	_, err := pipeline.New("test", post, pipeline.KeepLetters(letters.Options{Dir: t.TempDir()}))
	require.ErrorContains(t, err, `stage "post"`)
	require.ErrorContains(t, err, "pipeline_test.webhook.url is unexported")
	require.ErrorContains(t, err, "letters.Type")

	dir := t.TempDir()
	codec := letters.Type[webhook]{Encode: func(w webhook) ([]byte, error) {
		if w.url == "bad" {
			panic("no URL")
		}
		return []byte(w.url), nil
	}, Decode: func(b []byte) (webhook, error) { return webhook{string(b)}, nil }}
	for round := range 2 {
		post = stage.Sink("post", func(context.Context, webhook) error { return errNo }, stage.Workers(1, 1))
		p := start(t, post, pipeline.KeepLetters(letters.Options{Dir: dir}), codec)
		if round == 0 {
			require.NoError(t, post.Submit(t.Context(), webhook{"good"}))
			require.NoError(t, post.Submit(t.Context(), webhook{"bad"}))
		}
		require.NoError(t, p.Stop(soon(t)))
		list := p.Failures().List(letters.Filter{OldestFirst: true})
		require.Len(t, list, 2)
		require.Equal(t, webhook{"good"}, list[0].Command)
		if round == 1 {
			require.Nil(t, list[1].Command)
			require.ErrorContains(t, list[1].Missing, "no URL")
		}
	}
}

func TestACommandThatJSONWouldChangeIsNotInTheFileOfALetter(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		post := stage.Sink("post", func(context.Context, string) error { return errNo })
		p := start(t, post, pipeline.KeepLetters(letters.Options{Dir: dir}))
		if round == 0 {
			require.NoError(t, post.Submit(t.Context(), "caf\xe9"))
		}
		require.NoError(t, p.Stop(soon(t)))
		list := p.Failures().List(letters.Filter{})
		require.Len(t, list, 1)
		var lines strings.Builder
		require.NoError(t, p.Failures().Export(&lines))
		require.NotContains(t, lines.String(), `"command":`)
		if round == 0 {
			require.Equal(t, "caf\xe9", list[0].Command)
			require.Contains(t, lines.String(), `"command_text":`)
			continue
		}
		require.Nil(t, list[0].Command)
		require.ErrorContains(t, list[0].Missing, "JSON does not keep string: ")
	}
}

func TestFaultsOfKeptLetters(t *testing.T) {
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	_, err := pipeline.New("test", s, letters.Type[int]{Size: func(int) int { return 1 }, Encode: func(int) ([]byte, error) { return nil, nil }})
	require.ErrorContains(t, err, "letters.Type[int]: Encode and Decode belong together, and one is nil")
	_, err = pipeline.New("test", s, letters.Type[int]{Decode: func([]byte) (int, error) { return 0, nil }})
	require.ErrorContains(t, err, "letters.Type[int]: Encode and Decode belong together, and one is nil")

	_, err = pipeline.New("test", s, pipeline.KeepLetters(letters.Options{Most: -1, Dir: t.TempDir()}))
	require.ErrorContains(t, err, "KeepLetters: Most: -1 keeps no letters")

	dir := t.TempDir()
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
	q, err := pipeline.New("other", stage.Sink("s", func(context.Context, int) error { return nil }), quiet, pipeline.KeepLetters(letters.Options{Dir: dir}))
	require.NoError(t, err)
	_, err = q.Failures().Import(strings.NewReader(""))
	require.NoError(t, err)
	err = q.Start(t.Context())
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "in use by process")
	err = p.Add(t.Context(), stage.Sink("more", func(context.Context, func()) error { return nil }))
	require.ErrorContains(t, err, "func() is of type func()")
	require.NoError(t, p.Stop(soon(t)))
}

// A letter that cannot be written keeps the checkpoint before its command.
func TestACheckpointWaitsForTheLettersBeforeIt(t *testing.T) {
	dir := t.TempDir()
	var saved atomic.Int64
	began := make(chan struct{})
	s := stage.Sink("s", func(context.Context, int) error { <-began; return errNo })
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Feed("f", s, source.Checkpoint(source.Slice([]int{1}), 0,
		func(context.Context, int64) error {
			text, err := os.ReadFile(filepath.Join(dir, "failures"))
			require.NoError(t, err)
			require.Contains(t, string(text), `"stage":"s"`)
			saved.Add(1)
			return nil
		})))
	close(began)
	eventually(t, "the command has failed", func() bool { return p.Snapshot().Failed == 1 })
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 1, saved.Load())
}

// A command that comes from a source which hears of its end is that source's to keep.
func TestASourceThatHearsOfEndsKeepsItsOwnDeadLetters(t *testing.T) {
	dir := t.TempDir()
	heard := make(chan error, 1)
	for _, want := range []int{1, 0} {
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("no") })
		p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
		if want == 1 {
			require.NoError(t, p.Add(t.Context(), pipeline.Feed("f", s, source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
				return submit(1, func(err error) { heard <- err })
			}))))
			require.Error(t, <-heard)
		}
		require.Equal(t, want, p.Quarantine().Len())
		require.NoError(t, p.Stop(soon(t)))
	}
}
