// Step 2: a disk that fails at times, and a file that always does.
//
//	go run ./docs/tutorial/2-retries
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

var errBusy = errors.New("the disk is busy")

// saveSlowly fails at the first two tries of each thumbnail.
func saveSlowly(ctx context.Context, p picture.Picture) error {
	if behaviour.Attempt(ctx) < 3 {
		return errBusy
	}
	return picture.Save(ctx, p)
}

func main() {
	dir, err := picture.Samples(8)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	check(picture.AddBroken(dir)) // and broken.png, which is no picture

	again := stage.Retry(stage.RetryPolicy{
		Attempts: 5,                     // the first one included
		Backoff:  10 * time.Millisecond, // then 20, 40, 80
		If:       func(err error) bool { return errors.Is(err, errBusy) },
	})
	load := stage.Map("load", picture.Load)
	shrink := stage.Map("shrink", picture.Shrink)
	save := stage.Sink("save", saveSlowly, again)

	p, err := pipeline.New("thumbnails",
		load.To(shrink), shrink.To(save),
		pipeline.Feed("files", load, source.Files(dir+"/*.png")),
		pipeline.Failures(func(l stage.DeadLetter) { fmt.Println("failed:", l.Stage, "at attempt", l.Attempts, "with", l.Err) }))
	check(err)
	check(p.Run(context.Background()))

	fmt.Println(picture.Thumbnails(dir), "thumbnails, after", save.Snapshot().Counts.Retries, "retries")
	fmt.Println("law:", p.Snapshot().Law())
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
