// Step 1: thumbnails of all pictures of a directory, in three stages.
//
//	go run ./docs/tutorial/1-thumbnails
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func main() {
	dir, err := picture.Samples(8) // 1.png to 8.png, in a new directory
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	load := stage.Map("load", picture.Load)       // func(context.Context, string) (Picture, error)
	shrink := stage.Map("shrink", picture.Shrink) // func(context.Context, Picture) (Picture, error)
	save := stage.Sink("save", picture.Save)      // func(context.Context, Picture) error

	p, err := pipeline.New("thumbnails",
		load.To(shrink), shrink.To(save),
		pipeline.Feed("files", load, source.Files(dir+"/*.png")))
	check(err)
	check(p.Run(context.Background())) // returns when all files have been handled

	fmt.Println(picture.Thumbnails(dir), "thumbnails")
	fmt.Println("law:", p.Snapshot().Law())
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
