package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
)

// story is told on a terminal: what was done stands at the margin, what came of it below,
// further in.
type story struct{ out io.Writer }

func (s *story) title(n int, text string) {
	head := fmt.Sprintf("%d. %s", n, text)
	s.printf("\n%s\n%s\n", head, strings.Repeat("-", len(head)))
}

// didf tells what was done.
func (s *story) didf(format string, args ...any) { s.printf("\n"+format+"\n", args...) }

// sawf tells what came of it; a text of several lines is set in as a whole.
func (s *story) sawf(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		s.printf("    %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// printf writes to a terminal; if it is gone there is nobody to tell.
func (s *story) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// begin starts a pipeline that does not log its crashes: the story tells of them.
func begin(ctx context.Context, name string, parts ...pipeline.Part) (*pipeline.Pipeline, error) {
	p, err := pipeline.New(name, append(parts, pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// end stops a pipeline and shows its accounts.
func (s *story) end(p *pipeline.Pipeline) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := p.Stop(ctx)
	s.accounts(p)
	return err
}

// accounts shows what became of all commands.
func (s *story) accounts(p *pipeline.Pipeline) {
	snapshot := p.Snapshot()
	s.didf("The accounts:")
	s.sawf("%s", show.Law(snapshot))
	for _, st := range snapshot.Stages {
		s.sawf("stage %q: crashes %d, workers that took a crashed one's place %d, further tries %d",
			st.Name, st.Crashes, st.Restarts, st.Retries)
	}
}

// place is the line of this program at which a stack begins.
func place(stack []byte) string {
	const here = "/examples/supervision/"
	for line := range strings.Lines(string(stack)) {
		if _, file, ok := strings.Cut(line, here); ok {
			at, _, _ := strings.Cut(strings.TrimSpace(file), " ")
			return at
		}
	}
	return "an unknown place"
}
