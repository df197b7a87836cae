// Package comingfrom has the code of docs/coming-from.md: what programs that
// use channels, Watermill, River, asynq or Broadway look like here. Each is an
// example that runs as a test.
package comingfrom

import (
	"context"

	"github.com/golda-dev/golda/pipeline"
)

// run runs a pipeline until its feeds are exhausted.
func run(parts ...pipeline.Part) error {
	p, err := pipeline.New("example", parts...)
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
