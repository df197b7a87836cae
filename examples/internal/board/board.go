// Package board serves the dashboard of an example, for its flag -dashboard.
package board

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
)

// Usage is the help of the flag.
const Usage = "serve the dashboard at this `address` of this machine (such as :8077); $GOLDA_TOKEN enables its actions"

// Board is the dashboard of a pipeline, with a tap. A nil Board serves nothing,
// and adds nothing to the pipeline.
type Board struct {
	listener net.Listener
	taps     *tap.Tap
}

// Listen opens the port of an address, which must be one of this machine alone.
// An address without host is at 127.0.0.1. If the address is empty, the Board is
// nil.
func Listen(ctx context.Context, address string) (*Board, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // the methods take it
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("-dashboard: %w", err)
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "":
		host = "127.0.0.1"
	case host != "localhost" && (err != nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("-dashboard %s: use an address of this machine alone, such as 127.0.0.1: it can be read without a password", address)
	}
	l, err := show.Listen(ctx, "-dashboard", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &Board{l, tap.New()}, nil
}

// Addr returns the address of a Board that is not nil.
func (b *Board) Addr() net.Addr { return b.listener.Addr() }

// Tap returns the part of the pipeline that has its commands seen by the tap.
func (b *Board) Tap() pipeline.Part {
	if b == nil {
		return pipeline.Subgraph()
	}
	return pipeline.Middleware(b.taps.Around)
}

// Serve serves the dashboard of the pipeline until stop is called.
func (b *Board) Serve(p *pipeline.Pipeline) (stop func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	d, err := dashboard.New(p, dashboard.Options{Record: true, Tap: b.taps, Token: os.Getenv("GOLDA_TOKEN")})
	if err != nil {
		return nil, err
	}
	return show.Serve(b.listener, d, d.Close), nil
}

// Close closes the port of a Board that is not served.
func (b *Board) Close() {
	if b != nil {
		_ = b.listener.Close() // it may be closed already
	}
}
