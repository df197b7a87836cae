package stagetest

import (
	"context"
	"log/slog"
)

// ear hears what a pipeline logs. Errors that no deed of a plan explains are breaches.
type ear struct {
	slog.Handler
	run *run
}

// explained are the errors that what is done to a pipeline leads to.
var explained = map[string]bool{
	"restarting":       true, // a keeper was killed, or a stage gave up
	"pipeline gave up": true, // told as a breach of its own, if it is one
}

// Enabled lets errors through.
func (ear) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle hears of one line.
func (e ear) Handle(_ context.Context, rec slog.Record) error {
	if explained[rec.Message] {
		return nil
	}
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	e.run.breachf(Crashes, "logged as an error: %s", text)
	return nil
}

// WithAttrs hears the same.
func (e ear) WithAttrs([]slog.Attr) slog.Handler { return e }

// WithGroup hears the same.
func (e ear) WithGroup(string) slog.Handler { return e }
