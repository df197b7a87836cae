package stagehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/golda-dev/golda/pipeline"
)

// Run listens at the address of the server and calls [Serve].
func Run(ctx context.Context, server *http.Server, p *pipeline.Pipeline) error {
	needAll(ctx, server, p, "Run")
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(server.Addr, ":http"))
	if err != nil {
		return err
	}
	return Serve(ctx, l, server, p)
}

// Serve starts the pipeline and serves requests until ctx ends, the pipeline
// ends or the server fails. Then it stops both in the order in which no
// accepted request is lost: the server accepts no more connections, the
// pipeline completes the commands of the requests under way, and then the
// pipeline drains. If the server's TLSConfig has certificates it serves TLS.
//
// The stop takes at most the [pipeline.DrainTimeout], 25 s by default, and the
// pipeline's grace. The server gets at most half of it: requests that are not
// answered by then are cut off, and their commands end. If the pipeline gives
// up, the server stops too.
//
// The error is nil if all requests were answered and the pipeline was drained.
// Otherwise it joins the errors of the server and of [pipeline.Pipeline.Run].
// That ctx had ended before the pipeline started is no error. A pipeline that
// is already started is an error, and is left as it is. Serve closes the
// listener. To end a program with a signal, pass the context of
// signal.NotifyContext.
//
// A client whose request arrives on an idle connection just when the server
// closes it gets no answer, as with any http.Server. A new connection that has
// sent nothing delays the stop by up to 5 s, and a client that sends its
// request slowly as long as the server's ReadTimeout allows.
func Serve(ctx context.Context, l net.Listener, server *http.Server, p *pipeline.Pipeline) error {
	needAll(ctx, server, p, "Serve")
	need(l != nil, "Serve: nil listener")
	defer l.Close() //nolint:errcheck // the server closes it, if it was started
	select {
	case <-p.Done():
		return fmt.Errorf("stagehttp: Serve: pipeline %q: %w", p.Name(), pipeline.ErrStopped)
	default:
	}
	select {
	case <-p.Started():
		return fmt.Errorf("stagehttp: Serve starts the pipeline: %q is already started", p.Name())
	default:
	}
	ran := make(chan error, 1)                               // has the result of the pipeline's Run
	go func() { ran <- p.Run(context.WithoutCancel(ctx)) }() // it ends by Stop: the server must end first
	var served error
	early := false // stopped before it was started
	var patience *patience
	select {
	case <-p.Started():
		patience, served = serve(ctx, l, server, p)
	case err := <-ran:
		return err
	case <-ctx.Done():
		early, patience = true, newPatience(ctx, p)
	}
	defer patience.cancel()
	_ = p.Stop(patience.all) //nolint:contextcheck // the stop has a time of its own; Run returns its error
	err := <-ran
	if early && errors.Is(err, pipeline.ErrStopped) {
		return nil
	}
	return errors.Join(served, err)
}

// serve serves until ctx or the pipeline ends, or the server fails, and then
// stops the server. It returns the patience with which the pipeline must be
// stopped.
func serve(ctx context.Context, l net.Listener, server *http.Server, p *pipeline.Pipeline) (*patience, error) {
	served := make(chan error, 1)
	go func() { served <- listen(l, server) }()
	select {
	case <-ctx.Done():
	case <-p.Done():
	case err := <-served:
		return newPatience(ctx, p), errors.Join(err, server.Close())
	}
	patience := newPatience(ctx, p)
	err := server.Shutdown(patience.half) //nolint:contextcheck // the stop has a time of its own
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("stagehttp: Serve: requests were under way after %v, half of the DrainTimeout, and were cut off: %w", p.DrainTimeout()/2, err)
	}
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return patience, err
}

func listen(l net.Listener, server *http.Server) error {
	if c := server.TLSConfig; c != nil && (len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil) {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// patience holds the time limits of a stop: one for the whole stop, one for its
// first half.
type patience struct {
	all, half context.Context
	cancel    func()
}

func newPatience(ctx context.Context, p *pipeline.Pipeline) *patience {
	ctx = context.WithoutCancel(ctx)
	all, cancelAll := context.WithTimeout(ctx, p.DrainTimeout())
	half, cancelHalf := context.WithTimeout(ctx, p.DrainTimeout()/2)
	return &patience{all, half, func() { cancelAll(); cancelHalf() }}
}

func needAll(ctx context.Context, server *http.Server, p *pipeline.Pipeline, call string) {
	need(ctx != nil, call+": nil context")
	need(server != nil, call+": nil server")
	need(p != nil, call+": nil pipeline")
}
