// Step 5: more pictures than there is room for. The stage refuses those that it
// cannot take, at once, and says when to come again.
//
//	go run ./docs/tutorial/5-overload
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

func main() {
	ctx := context.Background()
	dir, err := picture.Samples(20)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	busy, proceed := make(chan struct{}, 20), make(chan struct{})
	load := stage.Map("load", func(ctx context.Context, file string) (picture.Picture, error) {
		busy <- struct{}{}
		<-proceed // a slow disk
		return picture.Load(ctx, file)
	}, stage.Workers(1, 1), stage.Capacity(4), stage.Overflow(overflow.Reject))
	shrink := stage.Map("shrink", picture.Shrink)
	save := stage.Sink("save", picture.Save)
	p, err := pipeline.New("thumbnails", load.To(shrink), shrink.To(save))
	check(err)
	check(p.Start(ctx))

	refused := 0
	for n := range 20 {
		err := load.Submit(ctx, fmt.Sprintf("%s/%d.png", dir, n+1))
		if o, ok := stage.Overloaded(err); ok {
			refused++
			if refused == 1 {
				fmt.Println("refused, with reason", o.Reason, "and a time to try again:", o.RetryAfter > 0)
			}
		} else {
			check(err)
		}
		if n == 0 {
			<-busy // the worker has the first one
		}
	}
	fmt.Println(refused, "refused")
	close(proceed)
	check(p.Stop(ctx))

	fmt.Println(picture.Thumbnails(dir), "thumbnails")
	fmt.Println("law:", p.Snapshot().Law())
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
