package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// The bytes of each host are summed up to the end of the input. If the process is killed, the next one goes on with the sums and the
// position that were saved last, so each line counts once.
func ExampleCheckpoint() {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	type hit struct {
		Host  string
		Bytes int
	}
	parse := stage.Map("parse", func(_ context.Context, line string) (h hit, err error) {
		_, err = fmt.Sscan(line, &h.Host, &h.Bytes)
		return h, err
	})
	sum := window.Aggregate("sum", func(h hit) string { return h.Host },
		func(bytes int, h hit) int { return bytes + h.Bytes },
		window.Bounds[hit]{Time: 24 * time.Hour}) // longer than the input takes: windows are closed at its end
	report := stage.Sink("report", func(_ context.Context, w window.Window[string, int]) error {
		fmt.Println(w.Key, w.Value)
		return nil
	})
	p, err := pipeline.New("log", parse.To(sum), sum.To(report),
		pipeline.Feed("lines", parse, source.Lines(strings.NewReader("a 10\na 20\na 12"), 0)),
		pipeline.Checkpoint(filepath.Join(dir, "log.checkpoint"), time.Second))
	if err != nil {
		panic(err)
	}
	if err := p.Run(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(p.Snapshot().Feeds[0].Checkpoint, "bytes are done")
	// Output:
	// a 42
	// 14 bytes are done
}
