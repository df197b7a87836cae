package cookbook

import (
	"context"
	"fmt"
	"strings"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

type request struct {
	host  string
	bytes int
}

func parse(_ context.Context, line string) (r request, err error) {
	_, err = fmt.Sscan(line, &r.host, &r.bytes)
	return r, err
}

// traffic sums up the requests of one host. Its fields need no lock.
type traffic struct {
	host            string
	requests, bytes int
}

func (t *traffic) HandleCommand(_ context.Context, r request) behaviour.Outcome {
	t.requests++
	t.bytes += r.bytes
	return behaviour.OK(nil)
}

func (t *traffic) Stop() { fmt.Println(t.host, t.requests, t.bytes) }

func Example_analyseALogByKey() {
	log := strings.NewReader("ann 100\nbob 7\nann 20\n")
	parse := stage.Map("parse", parse)
	sum := stage.Keyed("sum",
		func(r request) string { return r.host },
		func(host string) *traffic { return &traffic{host: host} })
	fmt.Println(run(parse.To(sum), pipeline.Feed("lines", parse, source.Lines(log, 0))))
	// Unordered output:
	// ann 2 120
	// bob 1 7
	// <nil>
}
