package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// asker asks a server over a connection of its own. If the connection breaks,
// it panics on purpose: a fresh instance makes a fresh connection, if there
// still is a server.
type asker struct {
	server string
	conn   net.Conn
	lines  *bufio.Scanner
}

func (a *asker) Start(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.server)
	if err != nil {
		return err
	}
	a.conn, a.lines = conn, bufio.NewScanner(conn)
	return nil
}

func (a *asker) Stop() { _ = a.conn.Close() }

func (a *asker) HandleCommand(_ context.Context, question string) behaviour.Outcome {
	if _, err := fmt.Fprintln(a.conn, question); err != nil {
		panic(err)
	}
	if !a.lines.Scan() {
		panic("the server has hung up")
	}
	return behaviour.OK(a.lines.Text())
}

// escalation: the resource of a stage is gone for good. The stage tries,
// pauses, tries again, and gives up. The pipeline stops, every waiting command
// becomes a dead letter, and Run returns an error that includes the whole
// story.
func escalation(ctx context.Context, s *story) error {
	server, err := newServer(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	ask := stage.Each("ask", func() behaviour.Behaviour[string] { return &asker{server: server.address()} },
		stage.Workers(1, 1), stage.Capacity(8), stage.Restart(stage.RestartPolicy{Limit: 10}))
	p, err := pipeline.New("escalation", ask, pipeline.Intensity(1, time.Minute),
		pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.DeadLetters(func(stage.DeadLetter) {}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()

	s.didf("A stage asks a server on this machine, which answers.")
	for _, question := range []string{"are you there?", "and now?"} {
		answer, err := firstCall(ctx, p, ask, question)
		if err != nil {
			cancel()
			return errors.Join(err, <-ran)
		}
		s.sawf("%q: %q", question, answer)
	}
	s.didf("The supervision tree:")
	s.sawf("%s", p.Tree()) //nolint:contextcheck // a snapshot of a tree needs no context

	s.didf("The server dies. Commands keep coming; they wait in the queue, and their callers for a free slot.")
	server.close()
	died := time.Now()
	for ask.Submit(ctx, "still there?") == nil { //nolint:revive // until the stage is closed
	}
	err = <-ran
	s.sawf("%s later Run returned an error:", show.Brief(time.Since(died)))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	broken, ok := errors.AsType[*supervisor.EscalationError](err)
	if !ok {
		return fmt.Errorf("run returned without a story: %w", err)
	}
	s.sawf("%v", broken)
	s.didf("Its story (without the engine's part of the stacks):")
	s.sawf("%s", fold(broken.Story()))
	s.didf("The tree, afterwards:")
	s.sawf("%s", p.Tree()) //nolint:contextcheck // a snapshot of a tree needs no context
	s.accounts(p)
	s.sawf("Letters in quarantine: %d; among the other dead letters: %d.", p.Quarantine().Len(), p.DeadLetters().Len())
	return nil
}

// firstCall repeats the first call until the pipeline accepts commands, because
// Run has only just been called.
func firstCall(ctx context.Context, p *pipeline.Pipeline, ask *stage.Stage[string], question string) (answer string, err error) {
	for {
		answer, err = stage.Call[string](ctx, ask, question)
		if !errors.Is(err, stage.ErrNotRunning) {
			return answer, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-p.Done():
			return "", err
		}
	}
}

// fold removes from each stack the frames of other packages.
func fold(story string) string {
	var b strings.Builder
	lines := strings.SplitAfter(story, "\n")
	in := false // a stack
	for i, line := range lines {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "goroutine "):
			in = true
		case strings.HasPrefix(text, "- "), strings.HasPrefix(text, "the last "), text != "" && text[0] >= '0' && text[0] <= '9':
			in = false
		}
		ours := strings.Contains(line, "/examples/supervision/") ||
			i+1 < len(lines) && strings.Contains(lines[i+1], "/examples/supervision/")
		if !in || ours {
			b.WriteString(line)
		}
	}
	return b.String()
}
