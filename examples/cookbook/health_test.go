package cookbook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// alive is for /healthz. A process whose pipeline has ended must be started again.
func alive(p *pipeline.Pipeline) error {
	select {
	case <-p.Done():
		return errors.Join(errors.New("the pipeline has ended"), p.Err())
	default:
		return nil
	}
}

// ready is for /readyz. A process that is not ready gets no requests for a while.
func ready(p *pipeline.Pipeline, needs ...func() error) error {
	select {
	case <-p.Started():
	default:
		return errors.New("the pipeline has not started")
	}
	err := alive(p)
	for _, need := range needs {
		err = errors.Join(err, need())
	}
	return err
}

// report answers 200 or 503. Crashes are shown, and make no process unready: bad requests would take all processes out of service.
func report(p *pipeline.Pipeline, health func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		for _, s := range p.Snapshot().Stages {
			fmt.Fprintln(w, "stage", s.Name, "queued", s.Queue.Queued, "crashes in a row", s.Workers.CrashStreak)
		}
	}
}

func Example_sayWhetherItIsHealthy() {
	divide := stage.Map("divide", func(_ context.Context, n int) (int, error) { return 100 / n, nil })
	p, err := pipeline.New("shop", divide)
	check(err)
	var lost atomic.Bool
	database := func() error { // or the method Healthy of a connection of adapter/nats
		if lost.Load() {
			return errors.New("the database is away")
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("POST /divide", stagehttp.New(divide.Call))
	mux.Handle("GET /healthz", report(p, func() error { return alive(p) }))
	mux.Handle("GET /readyz", report(p, func() error { return ready(p, database) }))
	server := httptest.NewServer(mux) // a service calls stagehttp.Run, which starts the pipeline

	show(server.URL+"/readyz", http.Get)
	check(p.Start(context.Background()))
	show(server.URL+"/divide", func(url string) (*http.Response, error) {
		return http.Post(url, "application/json", strings.NewReader("0")) // it panics
	})
	show(server.URL+"/readyz", http.Get)
	lost.Store(true)
	show(server.URL+"/readyz", http.Get)
	show(server.URL+"/healthz", http.Get)
	check(p.Stop(context.Background()))
	show(server.URL+"/healthz", http.Get)
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// /readyz 503 the pipeline has not started
	// /divide 500 {"title":"Internal Server Error","status":500}
	// /readyz 200 stage divide queued 0 crashes in a row 1
	// /readyz 503 the database is away
	// /healthz 200 stage divide queued 0 crashes in a row 1
	// /healthz 503 the pipeline has ended
}

// show sends a request and shows the answer.
func show(url string, send func(url string) (*http.Response, error)) {
	r, err := send(url)
	check(err)
	body, err := io.ReadAll(r.Body)
	check(errors.Join(err, r.Body.Close()))
	fmt.Println(r.Request.URL.Path, r.StatusCode, strings.TrimSpace(string(body)))
}
