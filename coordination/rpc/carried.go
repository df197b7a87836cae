package rpc

import (
	"context"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/headers"
)

// headerTimeLeft is the header of a request that says how much time the
// commands of the caller have, see [stage.WithDeadline]. That may be another
// time than the one for which the caller waits.
const headerTimeLeft = "Golda-Time-Left"

// carried has the values of a caller's context that its requests take along.
type carried struct {
	headers map[string]string // as package headers has written them; nil if there are none
	until   time.Time         // the deadline that commands take along; zero if there is none
}

// carriedBy returns the values that requests of a context take along.
func carriedBy(ctx context.Context) (c carried) {
	c.until, _ = command.DeadlineOf(ctx)
	if headers.From(nowhere) != nil { // otherwise Inject has nothing to do, and is not given a function
		c.headers = injected(ctx)
	}
	return c
}

// nowhere has no headers.
func nowhere(string) string { return "" }

// injected returns the headers for the values of a context.
func injected(ctx context.Context) (all map[string]string) {
	headers.Inject(ctx, func(name, value string) {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "golda-") {
			return
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	})
	return all
}

// message returns the headers of a message to another node.
func (c carried) message() map[string]string {
	if c.until.IsZero() {
		return c.headers
	}
	all := map[string]string{headerTimeLeft: max(time.Until(c.until), 0).String()}
	for name, value := range c.headers {
		all[name] = value
	}
	return all
}

// received returns the values in the headers of a message of another node. A
// time that is no duration is ignored: the caller's time holds for the request
// all the same.
func received(all map[string]string) carried {
	c := carried{headers: all}
	if all[headerTimeLeft] == "" {
		return c
	}
	if left, err := time.ParseDuration(all[headerTimeLeft]); err == nil {
		c.until = time.Now().Add(left)
	}
	return c
}

// size returns how many bytes the headers have.
func (c carried) size() (n int) {
	for name, value := range c.headers {
		n += len(name) + len(value)
	}
	return n
}

// values returns the values for the context of a function. It calls code of the
// program's propagators.
func (c carried) values() *command.Values {
	if c.headers == nil && c.until.IsZero() {
		return nil
	}
	ctx := context.Background()
	if !c.until.IsZero() {
		ctx = command.Dated(ctx, c.until)
	}
	return command.NewValues(headers.Extract(ctx, func(name string) string { return c.headers[strings.ToLower(name)] }))
}
