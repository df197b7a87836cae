package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// One node has a stage, and another one calls it by the name of its node. Here both are in one program; with [nats.Connect] they are in two.
func ExampleNewTransport() {
	dir, err := os.MkdirTemp("", "pages")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)

	// The node with the stage.
	ocr := stage.Func("ocr", func(_ context.Context, page string) behaviour.Outcome { return behaviour.OK(strings.ToLower(page)) })
	p, err := pipeline.New("pages", ocr, pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Start(ctx))
	tr, err := nats.NewTransport(conn, "ocr-1", nats.TransportConfig{})
	check(err)
	node, err := rpc.NewNode(rpc.Config{Transport: tr})
	check(err)
	_, err = node.Spawn(ctx, "pages", func(p *rpc.Process) error {
		rpc.Stage[string](p, "ocr", ocr)
		return nil
	})
	check(err)

	// The node that calls it.
	tr, err = nats.NewTransport(conn, "front", nats.TransportConfig{})
	check(err)
	front, err := rpc.NewNode(rpc.Config{Transport: tr})
	check(err)
	read := rpc.At[string, string](front.Remote("ocr-1", "pages"), "ocr")
	text, err := read.Call(coroutine.Blocking(ctx), "HELLO")
	fmt.Println(text, err)

	check(node.Close())
	_, err = read.Call(coroutine.Blocking(ctx), "HELLO")
	fmt.Println(errors.Is(err, rpc.ErrUnreachable))
	check(front.Close())
	check(p.Stop(ctx))
	check(conn.Close(ctx))
	// Output:
	// hello <nil>
	// true
}
