package main

import (
	"io"
	"log/slog"
	"runtime"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

type port = behaviour.Port[*conn]

// staff is the policy of a pipeline and its number of workers.
type staff struct {
	policy  controller.Policy
	workers int // the most that a stage may have
}

// plan makes the pipeline
//
//	parse → cache → file or work → respond → parse
//
// of a server, and gives the server its entries.
func (s *server) plan(st staff, stderr io.Writer, parts ...pipeline.Part) (err error) {
	served, refused := behaviour.NewPort[*conn]("request"), behaviour.NewPort[*conn]("refused")
	known, missing, dynamic := behaviour.NewPort[*conn]("cached"), behaviour.NewPort[*conn]("file"), behaviour.NewPort[*conn]("page")
	read, computed := behaviour.NewPort[*conn]("answer"), behaviour.NewPort[*conn]("answer")
	more, next := behaviour.NewPort[*conn]("more"), behaviour.NewPort[*conn]("next")

	s.entry = stage.Each("parse", s.newParse(served, refused), st.few(s, stage.Out(served, refused))...)
	cache := stage.New("cache", lookup{s, known, missing, dynamic}, st.few(s, stage.Out(known, missing, dynamic))...)
	file := stage.New("file", fetch{s, read}, st.many(s, stage.Out(read))...)
	page := stage.New("work", work{computed}, st.many(s, stage.Batch(1), stage.Out(computed))...)
	s.exit = stage.Each("respond", s.newRespond(more, next), st.few(s, stage.Out(more, next))...)

	s.line, err = pipeline.New("webserver", s.entry, cache, file, page, s.exit,
		pipeline.Wire(served, cache), pipeline.Wire(refused, s.exit),
		pipeline.Wire(known, s.exit), pipeline.Wire(missing, file), pipeline.Wire(dynamic, page),
		pipeline.Wire(read, s.exit), pipeline.Wire(computed, s.exit),
		pipeline.Wire(more, s.exit), pipeline.Wire(next, s.entry),
		pipeline.Control(st.policy), pipeline.DeadLetters(s.lost),
		pipeline.Logger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		pipeline.Subgraph(parts...),
	)
	return err
}

// few returns the options of a stage that never waits: it cannot use more
// workers than there are processors.
func (c staff) few(s *server, more ...stage.Option) []stage.Option {
	return c.options(s, min(c.workers, runtime.GOMAXPROCS(0)), more)
}

// many returns the options of a stage that waits for the disk, or computes for
// long.
func (c staff) many(s *server, more ...stage.Option) []stage.Option {
	return c.options(s, c.workers, more)
}

func (c staff) options(s *server, most int, more []stage.Option) []stage.Option {
	return append(more,
		stage.Workers(c.fewest(most), most),
		stage.Capacity(s.limits.connections+s.limits.spare)) // a connection is in one stage at a time
}

// fewest returns one worker, to which the policy adds more. A policy that does
// not set the number of workers gets all from the start.
func (c staff) fewest(most int) int {
	if c.policy == (policy.Fixed{}) {
		return most
	}
	return 1
}
