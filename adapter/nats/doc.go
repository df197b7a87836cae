// Package nats puts durable queues in front of stages, and keeps them across
// crashes: the commands are messages of a JetStream of NATS, which runs inside
// the process, or anywhere.
//
//	conn, err := nats.Embed("/var/lib/shop", nats.Store{}) // or nats.Connect(ctx, "tls://nats.example.com", …)
//	…
//	defer conn.Close(context.Background())
//	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[Order]{})
//	…
//	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed))
//	…
//	err = orders.Publish(ctx, order.ID, order) // nil: from now on the order is not lost
//	…
//	err = p.Run(ctx)
//
// # What is promised
//
// A message that [Inlet.Publish] has returned nil for is in the server. It is
// delivered until its command has ended well, with all that was emitted on its
// way, or has become a dead letter: at least once, also if processes are killed
// meanwhile. It may be handled more than once, and in another order. [Once] has
// effects happen once that are kept as outcomes. The server keeps its messages
// when its process is killed. For the cost of a power cut see [Store].
//
// # What becomes of a message
//
//	its command …                               the message …
//	ended well                                  is acknowledged, and gone
//	failed, and Options.Retry allows it         is delivered again after a pause
//	was ended by a hard stop                    is delivered again at once
//	crashed its handler, or failed for good     becomes a dead letter
//	cannot be decoded, or is of an unknown type becomes a dead letter
//
// A dead letter is stored before its message is dropped, with the reason.
// [Inlet.Letters] reads them, [Inlet.Retry] tries one again.
//
// # Back-pressure
//
// An inlet asks the server for no more messages than [Options.MaxInFlight]
// allows, so a slow stage leaves them in the stream. A stream that is full
// refuses further ones with [ErrFull], and never drops one that it has.
//
// A loop that fans out goes through an inlet, so that the disk holds the
// messages that memory cannot: see [Inlet.Publisher].
//
// # Calls
//
// [NewTransport] connects the nodes of package coordination/rpc by the server
// of a Conn: a process, or a stage, is called by the name of its node, wherever
// that is.
//
// # Testing
//
// Embed in the directory of t.TempDir() is a server for one test. It takes some
// milliseconds to start.
package nats
