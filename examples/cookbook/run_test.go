package cookbook

import (
	"context"

	"github.com/golda-dev/golda/pipeline"
)

// run makes a pipeline and runs it until its feeds are exhausted and all their commands have ended.
func run(parts ...pipeline.Part) error {
	p, err := pipeline.New("recipe", parts...)
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
