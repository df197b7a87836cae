package logs

import (
	"log/slog"

	"github.com/golda-dev/golda/internal/plain"
)

const (
	maxShown = 512 // bytes of a command in the log
	maxDepth = 4   // groups within groups
)

// Payload returns a command as the log shows it: the value of its LogValue
// method if it is a [slog.LogValuer], else its text, 512 bytes at most. It
// calls methods of the command, which are user code.
func Payload(cmd any) any {
	v, ok := cmd.(slog.LogValuer)
	if !ok {
		return plain.Brief(cmd, maxShown)
	}
	left := maxShown
	return bounded(slog.AnyValue(v).Resolve(), 0, &left)
}

// bounded returns a value cut to left bytes, and subtracts the bytes that it
// takes from left.
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
	if depth == maxDepth {
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
