package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Serve the dashboard of a pipeline at an address that only this machine has.
func ExampleNew() {
	resize := stage.Map("resize", func(_ context.Context, n int) (int, error) { return n / 2, nil })
	p, err := pipeline.New("images", resize)
	if err != nil {
		panic(err)
	}
	d, err := dashboard.New(p, dashboard.Options{})
	if err != nil {
		panic(err)
	}
	server := &http.Server{Addr: "localhost:8077", Handler: d}
	server.RegisterOnShutdown(d.Close)
	// go server.ListenAndServe()

	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/golda/v1/graph", nil)
	d.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"name":"resize"`))
	// Output: 200 true
}

// Show a recording, which golda record or the page has made.
func ExampleOpen() {
	d := dashboard.Open(api.Recording{Root: api.Root{Pipeline: "images"}})
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/golda/v1", nil))
	fmt.Println(strings.Contains(w.Body.String(), `"pipeline":"images"`))
	// Output: true
}
