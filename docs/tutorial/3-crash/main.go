// Step 3: a picture crashes its handler. The crash costs this picture alone,
// and when the picture has been mended, it is handled after all.
//
//	go run ./docs/tutorial/3-crash
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

func main() {
	ctx := context.Background()
	dir, err := picture.Samples(8)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	check(picture.AddNarrow(dir)) // and narrow.png, by which Shrink divides by zero

	load := stage.Map("load", picture.Load)
	shrink := stage.Map("shrink", picture.Shrink)
	save := stage.Sink("save", picture.Save)
	p, err := pipeline.New("thumbnails", load.To(shrink), shrink.To(save))
	check(err)
	check(p.Start(ctx))

	files, err := filepath.Glob(dir + "/*.png")
	check(err)
	for _, file := range files {
		if _, err := load.Call(ctx, file); err != nil { // waits until the thumbnail is there
			fmt.Println(filepath.Base(file)+":", err)
		}
	}
	fmt.Println(picture.Thumbnails(dir), "thumbnails,", p.Quarantine().Len(), "picture in quarantine")

	// Mend it, and try it again.
	for _, l := range p.Quarantine().List(letters.Filter{}) {
		narrow, _ := l.Command.(picture.Picture)
		check(p.Quarantine().RetryAs(ctx, l.ID, picture.Widen(narrow)))
	}
	stop, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	check(p.Stop(stop)) // finishes what was accepted

	fmt.Println(picture.Thumbnails(dir), "thumbnails,", p.Quarantine().Len(), "pictures in quarantine")
	fmt.Println("law:", p.Snapshot().Law())
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
