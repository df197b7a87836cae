package main

import (
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/examples/images/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// capacity is the capacity of each stage's inbox. Decoded images wait there, so
// it is small: when an inbox is full, the stage before it waits, and in the end
// the source does.
const capacity = 16

// again retries an image that crashed its handler twice. An error, such as a
// corrupt file, is an answer and final.
var again = stage.RetryPolicy{Attempts: 3, Backoff: 5 * time.Millisecond, Jitter: 0.2, If: stage.Crashed}

// plan makes the pipeline load → five filters → save, and returns it with its
// entry. The census counts the images in it.
func plan(c config, box *outbox, alive *census, stderr io.Writer, more ...pipeline.Part) (*pipeline.Pipeline, *stage.Stage[*job], error) {
	line := newLine(c)
	entry := line.add("load", func(next *port) behaviour.Behaviour[*job] { return load{most: c.maxPixels, alive: alive, next: next} })
	for _, f := range picture.Filters() {
		line.add(f.Stage, func(next *port) behaviour.Behaviour[*job] { return filtering{filter: f, next: next} })
	}
	line.end("save", save{box: box, alive: alive})
	stages := line.parts
	if c.pool > 0 {
		stages = []pipeline.Part{pipeline.Group("pool", c.pool, c.pool, stages...)}
	}
	p, err := pipeline.New("images", append(append(stages, more...),
		pipeline.Entry(entry), pipeline.Control(c.policy), pipeline.DeadLetters(alive.removeDead), pipeline.Logger(errorLog(stderr)))...)
	return p, entry, err
}

// errorLog returns a logger that reports why a pipeline gave up, and nothing
// else: crashes are counted in the table, and failed images are reported at the
// end.
func errorLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
}

// line connects stages in a row: each forwards to a port of its own, which is
// wired to the stage that is added next. No stage knows its neighbours.
type line struct {
	options []stage.Option
	parts   []pipeline.Part
	out     *port // of the stage that was added last
}

func newLine(c config) *line {
	return &line{options: []stage.Option{
		stage.Workers(fewest(c), c.workers),
		stage.Capacity(capacity),
		stage.Retry(again),
	}}
}

// fewest returns one worker, to which the policy adds more. If the policy does
// not set the number of workers, all run from the start.
func fewest(c config) int {
	pol, says := c.policy.(controller.Claimer)
	if says && !slices.Contains(pol.Claims(), controller.Knob(controller.KnobWorkers)) {
		return c.workers
	}
	return 1
}

func (l *line) add(name string, make func(next *port) behaviour.Behaviour[*job]) *stage.Stage[*job] {
	next := behaviour.NewPort[*job]("next")
	s := l.end(name, make(next), stage.Out(next))
	l.out = next
	return s
}

func (l *line) end(name string, b behaviour.Behaviour[*job], more ...stage.Option) *stage.Stage[*job] {
	s := stage.New(name, b, append(more, l.options...)...)
	l.parts = append(l.parts, s)
	if l.out != nil {
		l.parts = append(l.parts, pipeline.Wire(l.out, s))
	}
	return s
}
