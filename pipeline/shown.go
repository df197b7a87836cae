package pipeline

import (
	"log/slog"

	"github.com/golda-dev/golda/internal/plain"
)

const (
	mostShown  = 512 // bytes of a command in the log
	deepestLog = 4   // groups within groups
)

// shown is a command as the log shows it. It calls methods of the command, which are a user's code.
func shown(cmd any) any {
	v, ok := cmd.(slog.LogValuer)
	if !ok {
		return plain.Brief(cmd, mostShown)
	}
	left := mostShown
	return bounded(slog.AnyValue(v).Resolve(), 0, &left)
}

// bounded is a value of which no more is shown than is left, and takes that away.
func bounded(v slog.Value, depth int, left *int) slog.Value {
	switch v.Kind() {
	case slog.KindGroup:
		return boundedGroup(v.Group(), depth, left)
	case slog.KindString, slog.KindAny:
		text := plain.Brief(v.Any(), *left)
		*left = max(*left-len(text), 0)
		return slog.StringValue(text)
	default:
		*left = max(*left-8, 0)
		return v
	}
}

func boundedGroup(attrs []slog.Attr, depth int, left *int) slog.Value {
	if depth == deepestLog {
		return slog.StringValue("...")
	}
	var shown []slog.Attr
	for _, a := range attrs {
		if *left == 0 {
			shown = append(shown, slog.String("...", "cut"))
			break
		}
		key := plain.Brief(a.Key, *left)
		*left = max(*left-len(key), 0)
		shown = append(shown, slog.Attr{Key: key, Value: bounded(a.Value.Resolve(), depth+1, left)})
	}
	return slog.GroupValue(shown...)
}
