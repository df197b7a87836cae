// Step 4: one worker for all stages, under two policies. The stages are the
// same; what changes is how soon the first thumbnail is there.
//
//	go run ./docs/tutorial/4-policy
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() {
	for _, by := range []controller.Policy{policy.Color{}, policy.SRPT{}} {
		fmt.Printf("%s: the first thumbnail was saved by handler %d of 24\n", by.Name(), first(by))
	}
}

// first returns how many handlers had run when the first thumbnail was saved.
func first(by controller.Policy) (saved int64) {
	ctx := context.Background()
	dir, err := picture.Samples(8)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	var handlers atomic.Int64
	one := stage.Batch(1) // a worker takes one command at a time
	load := stage.Map("load", func(ctx context.Context, file string) (picture.Picture, error) {
		handlers.Add(1)
		return picture.Load(ctx, file)
	}, one)
	shrink := stage.Map("shrink", func(ctx context.Context, p picture.Picture) (picture.Picture, error) {
		handlers.Add(1)
		return picture.Shrink(ctx, p)
	}, one)
	save := stage.Sink("save", func(ctx context.Context, p picture.Picture) error {
		if n := handlers.Add(1); saved == 0 {
			saved = n
		}
		return picture.Save(ctx, p)
	}, one)

	p, err := pipeline.New("thumbnails",
		pipeline.Group("all", 1, 1, load.To(shrink), shrink.To(save)), // one worker for the three stages
		pipeline.Control(by))
	check(err)
	check(p.Start(ctx))
	files, err := filepath.Glob(dir + "/*.png")
	check(err)
	check(p.Pause(load)) // so that all files wait when the first one is loaded
	_, err = load.SubmitAll(ctx, files...)
	check(err)
	check(p.Resume(load))
	check(p.Stop(ctx))
	return saved
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
