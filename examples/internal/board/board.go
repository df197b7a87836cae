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
)

// Usage is the help of the flag.
const Usage = "serve the dashboard at this `address` of this machine (such as :8077); $GOLDA_TOKEN enables its actions"

// Listen opens the port of an address, which must be one of this machine alone.
// An address without host is at 127.0.0.1. If the address is empty, there is no
// listener.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // Serve takes it
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
	return show.Listen(ctx, "-dashboard", net.JoinHostPort(host, port))
}

// Serve serves the dashboard of a pipeline until stop is called. If the
// listener is nil, it does nothing.
func Serve(l net.Listener, p *pipeline.Pipeline) (stop func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	d, err := dashboard.New(p, dashboard.Options{Record: true, Token: os.Getenv("GOLDA_TOKEN")})
	if err != nil {
		return nil, err
	}
	return show.Serve(l, d, d.Close), nil
}
