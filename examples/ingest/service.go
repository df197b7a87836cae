package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// service is a server in front of a pipeline of two stages:
//
//	POST /jobs ──▶ check ──▶ store
//
// Only check refuses jobs when it is full. store makes check wait instead, so
// an accepted job is not dropped on its way.
type service struct {
	p      *pipeline.Pipeline
	check  *stage.Flow[string, string]
	server *http.Server
}

// newService makes the service. Workers of the stage store call store with each
// job, several concurrently.
func newService(c config, store func(job string), options ...pipeline.Part) (*service, error) {
	s := &service{check: stage.Map("check", check, stage.Capacity(c.capacity), stage.Overflow(overflow.Reject))}
	last := stage.Sink("store", func(_ context.Context, job string) error { store(job); return nil }, stage.Capacity(c.capacity))
	whole := stage.Chain(s.check, last)
	mux := http.NewServeMux()
	mux.Handle("POST /jobs", handler(stagehttp.Accept(s.check.Submit))) // the job continues when the request is answered
	mux.Handle("POST /jobs/done", handler(stagehttp.New(whole.Call)))   // the job ends when its client no longer waits
	s.server = &http.Server{Handler: mux, ReadTimeout: 5 * time.Second} // a slow client must not delay the stop
	var err error
	s.p, err = pipeline.New("ingest", whole, pipeline.DrainTimeout(c.patience), pipeline.Subgraph(options...))
	return s, err
}

// run serves until ctx ends or the pipeline gives up. It returns nil if all
// requests were answered and the pipeline was drained.
func (s *service) run(ctx context.Context, l net.Listener) error {
	return stagehttp.Serve(ctx, l, s.server, s.p)
}

// handler sets the common fields of both handlers.
func handler(h *stagehttp.Handler[string, struct{}]) http.Handler {
	h.MaxBytes = 1024
	h.Decode = func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body)
		return string(body), err
	}
	h.Problem = func(err error) (int, string) {
		if errors.Is(err, errEmpty) {
			return http.StatusUnprocessableEntity, errEmpty.Error()
		}
		return 0, "" // the table of package stagehttp
	}
	return h
}
