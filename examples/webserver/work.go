package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/golda-dev/golda/behaviour"
)

const (
	workPath = "/work"
	mostWork = 1_000_000 // rounds; about a tenth of a second
)

// work is the stage that computes the dynamic page, which costs as much time as
// the client asks for.
type work struct {
	next *port
}

// HandleCommand computes the page.
func (w work) HandleCommand(ctx context.Context, c *conn) behaviour.Outcome {
	c.reply(page(ctx, c.req.URL.RawQuery))
	return behaviour.Forward(w.next, c)
}

func page(ctx context.Context, query string) answer {
	n, err := rounds(query)
	if err != nil {
		return text(http.StatusBadRequest, err.Error()+"\n")
	}
	sum, err := hashed(ctx, n)
	if err != nil {
		return text(http.StatusServiceUnavailable, "the server is stopping\n")
	}
	a := text(http.StatusOK, fmt.Sprintf("SHA-256, %d times over: %x\n", n, sum))
	a.extra = "Cache-Control: no-store\r\n"
	return a
}

// rounds reads n from a query.
func rounds(query string) (int, error) {
	values, err := url.ParseQuery(query)
	if err == nil && len(values["n"]) == 1 {
		var n int
		n, err = strconv.Atoi(values.Get("n"))
		if err == nil && n >= 1 && n <= mostWork {
			return n, nil
		}
	}
	return 0, fmt.Errorf("say how many rounds: %s?n=1 to %s?n=%d", workPath, workPath, mostWork)
}

// hashed hashes zeros, then the hash of that, and so on.
func hashed(ctx context.Context, n int) (sum [sha256.Size]byte, err error) {
	for i := range n {
		if i%1000 == 0 && ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		sum = sha256.Sum256(sum[:])
	}
	return sum, nil
}
