package show

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/pipeline"
)

// Listen opens a port, so that a port in use is reported before anything is
// started, with the name of the flag.
func Listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// ServeMetrics serves the pipeline's metrics until stop is called. If the
// listener is nil, it does nothing.
func ServeMetrics(l net.Listener, p *pipeline.Pipeline) (stop func()) {
	if l == nil {
		return func() {}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(goldaprom.NewCollector(p))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return Serve(l, mux, func() {})
}

// Serve serves a handler until stop is called. It calls closing when the server
// is to end, for answers that would not end by themselves.
func Serve(l net.Listener, h http.Handler, closing func()) (stop func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(closing)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // Shutdown ends it, and its error says so
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-ended
	}
}
