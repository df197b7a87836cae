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

// story prints to a terminal: actions at the margin, their results indented
// below.
type story struct{ out io.Writer }

func (s *story) title(n int, text string) {
	head := fmt.Sprintf("%d. %s", n, text)
	s.printf("\n%s\n%s\n", head, strings.Repeat("-", len(head)))
}

// didf prints an action.
func (s *story) didf(format string, args ...any) { s.printf("\n"+format+"\n", args...) }

// sawf prints a result; it indents every line of a text of several lines.
func (s *story) sawf(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		s.printf("    %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// printf writes to the terminal; if the terminal is gone, the error cannot be
// reported.
func (s *story) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// startQuietly starts a pipeline that does not log its crashes, because the
// story reports them.
func startQuietly(ctx context.Context, name string, parts ...pipeline.Part) (*pipeline.Pipeline, error) {
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

// accounts prints how the commands ended.
func (s *story) accounts(p *pipeline.Pipeline) {
	snapshot := p.Snapshot()
	s.didf("The accounts:")
	s.sawf("%s", show.Law(snapshot))
	for _, st := range snapshot.Stages {
		s.sawf("stage %q: crashes %d, workers that replaced a crashed one %d, retries %d",
			st.Name, st.Counts.Crashes, st.Counts.Restarts, st.Counts.Retries)
	}
}

// place returns the line of this program at which a stack starts.
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
