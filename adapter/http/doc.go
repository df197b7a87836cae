// Package stagehttp connects stages with HTTP: a stage as an http.Handler, a
// server and a pipeline that start and stop together, and functions for stages
// that send commands to other servers. It needs nothing but net/http.
//
//	price := stage.Map("price", quote, stage.Overflow(overflow.Reject)) // func(context.Context, Order) (Quote, error)
//	p, err := pipeline.New("shop", price)
//	mux.Handle("POST /quotes", stagehttp.New(price.Call))
//	err = stagehttp.Run(ctx, &http.Server{Addr: ":8080", Handler: mux, ReadTimeout: 5 * time.Second}, p)
//
// # Requests
//
// [New] answers a request with the result of its command, [Accept] answers when
// the command is accepted, and [Stream] with any number of results. The
// handlers of the command have the values of the request's context; except with
// Accept the command ends when the client goes away. A stage whose queue is
// full waits for a free slot, or, with stage.Overflow(overflow.Reject), refuses:
// then the answer is 503 at once.
//
// # Statuses
//
//	200, 202, 204  New with a result; Accept; New with the result struct{}
//	400            no command could be decoded; the detail says why
//	408            the body did not arrive within the server's ReadTimeout
//	413, 415       the body is too large; its Content-Type is missing, or is not JSON
//	429            the rate that a policy allows is used up, with Retry-After
//	503            any other overload, a stop, or a pipeline that is not running, with Retry-After, of a minute at most; see
//	               stage.Overloaded
//	499            the client went away: it is not answered, but counted and logged
//	504            the deadline of the request, or of a stage, has passed
//	500            a crash, a panic of a function of the handler, and any other error
//
// [Handler.Problem] may choose another status and detail for an error. An
// answer from 400 on has a body of type application/problem+json (RFC 9457),
// with the reason of an overload. An answer of the table shows the text of an
// error only if Decode returned it, and never a stack: a crash is in the
// pipeline's log, and each error goes to [Handler.Log].
//
// # Probes
//
// [Health] says whether a process must be started anew, and whether it may get
// requests.
package stagehttp
