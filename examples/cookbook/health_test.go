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

func Example_sayWhetherItIsHealthy() {
	divide := stage.Map("divide", func(_ context.Context, n int) (int, error) { return 100 / n, nil })
	p, err := pipeline.New("shop", divide)
	check(err)
	var lost atomic.Bool
	database := func(context.Context) error { // a ping, for instance
		if lost.Load() {
			return errors.New("the database is away")
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("POST /divide", stagehttp.New(divide.Call))
	health := stagehttp.Health(p, database)
	mux.Handle("GET /livez", health)
	mux.Handle("GET /readyz", health)
	server := httptest.NewServer(mux) // a service calls stagehttp.Run, which starts the pipeline

	show(server.URL+"/readyz", http.Get)
	check(p.Start(context.Background()))
	show(server.URL+"/divide", func(url string) (*http.Response, error) {
		return http.Post(url, "application/json", strings.NewReader("0")) // it panics
	})
	show(server.URL+"/readyz", http.Get)
	lost.Store(true)
	show(server.URL+"/readyz", http.Get)
	show(server.URL+"/livez", http.Get)
	check(p.Stop(context.Background()))
	show(server.URL+"/livez", http.Get)
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// /readyz 503 pipeline "shop" has not started
	// /divide 500 {"title":"Internal Server Error","status":500}
	// /readyz 200 ok
	// /readyz 503 the database is away
	// /livez 200 ok
	// /livez 503 pipeline "shop" has ended
}

// show sends a request and shows the answer.
func show(url string, send func(url string) (*http.Response, error)) {
	r, err := send(url)
	check(err)
	body, err := io.ReadAll(r.Body)
	check(errors.Join(err, r.Body.Close()))
	fmt.Println(r.Request.URL.Path, r.StatusCode, strings.TrimSpace(string(body)))
}
