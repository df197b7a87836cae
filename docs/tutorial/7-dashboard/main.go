// Step 7: a page that shows the pipeline at work.
//
//	go run ./docs/tutorial/7-dashboard   # and open the address that it prints; Ctrl-C ends it
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func main() {
	address := flag.String("listen", "localhost:8077", "where the page is")
	flag.Parse()
	dir, err := picture.Samples(8)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	check(picture.AddNarrow(dir)) // there is something to see

	load := stage.Map("load", picture.Load)
	shrink := stage.Map("shrink", picture.Shrink, stage.Workers(1, 2))
	save := stage.Sink("save", picture.Save)
	p, err := pipeline.New("thumbnails", load.To(shrink), shrink.To(save), pipeline.Feed("files", load, forever(dir)))
	check(err)

	page, err := dashboard.New(p, dashboard.Options{})
	check(err)
	server := &http.Server{Handler: page, ReadHeaderTimeout: time.Second}
	server.RegisterOnShutdown(page.Close)
	l, err := net.Listen("tcp", *address)
	check(err)
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	fmt.Printf("open http://%s\n", l.Addr())

	check(p.RunUntilSignal(context.Background()))
	check(server.Shutdown(context.Background()))
	fmt.Println("all of them balanced:", p.Snapshot().Balanced())
}

// forever makes the names of the pictures, again and again.
func forever(dir string) source.Source[string] {
	return func(ctx context.Context, submit func(string) error) error {
		files, err := filepath.Glob(dir + "/*.png")
		for n := 0; err == nil && ctx.Err() == nil; n++ {
			time.Sleep(20 * time.Millisecond)
			err = submit(files[n%len(files)])
		}
		return err
	}
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
