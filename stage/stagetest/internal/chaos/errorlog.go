package chaos

import (
	"context"
	"log/slog"
)

// errorLog receives what a pipeline logs. Errors that no action of a plan
// explains are breaches.
type errorLog struct {
	slog.Handler
	run *run
}

// explained are the errors that actions cause.
var explained = map[string]bool{
	"restarting":          true, // the actor of a stage was killed, or a stage gave up
	"restarting a source": true, // it failed, or was killed
	"pipeline gave up":    true, // reported as a breach of its own, if it is one
}

// Enabled accepts errors only.
func (errorLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle checks one record.
func (e errorLog) Handle(_ context.Context, rec slog.Record) error {
	if explained[rec.Message] {
		return nil
	}
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	e.run.breachf(Crashes, "logged as an error: %s", text)
	return nil
}

// WithAttrs returns e.
func (e errorLog) WithAttrs([]slog.Attr) slog.Handler { return e }

// WithGroup returns e.
func (e errorLog) WithGroup(string) slog.Handler { return e }
