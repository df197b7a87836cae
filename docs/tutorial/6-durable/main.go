// Step 6: the queue is on the disk. The process is killed, and the next one
// goes on.
//
//	go run ./docs/tutorial/6-durable
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/docs/tutorial/picture"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() {
	if len(os.Args) == 3 { // a child process: its directory, and its fate
		work(os.Args[1], os.Args[2] == "killed")
		return
	}
	ctx := context.Background()
	dir, err := picture.Samples(8)
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	conn, files := open(ctx, dir)
	names, err := filepath.Glob(dir + "/*.png")
	check(err)
	for _, name := range names {
		check(files.Publish(ctx, name, name)) // nil: from now on it is not lost
	}
	check(conn.Close(ctx))
	fmt.Println(len(names), "published")

	for n, fate := range []string{"killed", "finishes"} {
		child := exec.CommandContext(ctx, os.Args[0], dir, fate)
		child.Stderr = os.Stderr
		err := child.Run()
		fmt.Printf("process %d: %v, %d thumbnails\n", n+1, err, picture.Thumbnails(dir))
	}
}

// open opens the queue on the disk. Its server is inside this process.
func open(ctx context.Context, dir string) (*nats.Conn, *nats.Inlet[string]) {
	conn, err := nats.Embed(filepath.Join(dir, "queue"), nats.Store{})
	check(err)
	files, err := nats.NewInlet(ctx, conn, "files", nats.Options[string]{
		AckWait:    time.Second, // after which what a killed process had is delivered again
		UntilEmpty: true,        // the pipeline ends when the queue is empty
	})
	check(err)
	return conn, files
}

// work makes thumbnails of the files in the queue. If the process is to be
// killed, it is so at the fourth.
func work(dir string, killed bool) {
	ctx := context.Background()
	conn, files := open(ctx, dir)
	load := stage.Map("load", picture.Load)
	shrink := stage.Map("shrink", picture.Shrink)
	save := stage.Sink("save", func(ctx context.Context, p picture.Picture) error {
		if killed && picture.Thumbnails(dir) == 3 {
			self, err := os.FindProcess(os.Getpid())
			check(err)
			check(self.Kill()) // as kill -9 does
		}
		return picture.Save(ctx, p)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("thumbnails", load.To(shrink), shrink.To(save), pipeline.Feed("files", load, files.Feed))
	check(err)
	check(p.Run(ctx))
	check(conn.Close(ctx))
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
