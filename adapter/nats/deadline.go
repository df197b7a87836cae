package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/stage/headers"
)

// A message of a command with a deadline says how much time was left when it
// was published, and not when that is over: the clocks of two processes need
// not agree. The server stamps the message with its own time, and says what
// time it is when a process begins to receive; so the time in the server counts
// as well. What the message took from its publisher to the server does not.

// timeLeft returns the time until a deadline as a message has it.
func timeLeft(until time.Time) string { return max(time.Until(until), 0).String() }

// inject writes the deadline of a command, and the values that package headers
// carries, into the headers of its message. The context may be nil.
func inject(of context.Context, into natsgo.Header) {
	if of == nil {
		return
	}
	headers.Inject(of, func(name, value string) {
		if !ours(name) {
			into.Set(name, value)
		}
	})
	if until, ok := command.DeadlineOf(of); ok {
		into.Set(headerTimeLeft, timeLeft(until))
	}
}

// ours reports whether a header is one of the server's or of this package.
func ours(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "nats-") || strings.HasPrefix(name, "golda-")
}

// errTimeLeft is why a message is not decodable whose header no inlet has
// written.
var errTimeLeft = errors.New("the header " + headerTimeLeft + " is no duration")

// span returns since when a delivery has waited, and until when it may, as its
// header says. Of a server that does not say what time it is, the time left
// begins with the delivery: to expire late is better than to expire a command
// that is in time because a clock is wrong.
func (c *clock) span(d *delivery, left string) (feed.Span, error) {
	s := feed.Span{Since: c.since(d.at)}
	if left == "" {
		return s, nil
	}
	t, err := time.ParseDuration(left)
	if err != nil {
		return s, fmt.Errorf("%w: %.64q", errTimeLeft, left)
	}
	from := s.Since
	if c == nil {
		from = time.Now()
	}
	s.Until = from.Add(t)
	return s, nil
}
