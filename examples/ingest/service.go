package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// errEmpty is the error of a job without a name.
var errEmpty = errors.New("the job is empty; send its name as the body")

// service is a server in front of a pipeline of two stages:
//
//	POST /jobs ──▶ check ──▶ store
//
// Only check refuses jobs when it is full. store makes check wait instead, so an accepted job is not dropped on its
// way.
type service struct {
	p        *pipeline.Pipeline
	check    *stage.Stage[string]
	server   *http.Server
	patience time.Duration
}

// newService makes the service. Workers of the stage store call store with each job, several concurrently.
func newService(c config, store func(job string), options ...pipeline.Part) (*service, error) {
	last := stage.Func("store", func(_ context.Context, job string) behaviour.Outcome {
		store(job)
		return behaviour.OK(job)
	}, stage.Capacity(c.capacity))
	s := &service{patience: c.patience}
	s.check = stage.Func("check", func(_ context.Context, job string) behaviour.Outcome {
		if job = strings.TrimSpace(job); job == "" {
			return behaviour.Error(errEmpty)
		}
		return behaviour.Forward(last, job)
	}, stage.Capacity(c.capacity), stage.Overflow(stage.Reject))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", s.job)
	s.server = &http.Server{Handler: mux, ReadTimeout: 5 * time.Second} // a slow client must not delay the stop
	var err error
	s.p, err = pipeline.New("ingest", s.check, last, pipeline.Join(options...))
	return s, err
}

// run starts the pipeline, then the server. When ctx ends or the pipeline gives up, it stops the server, then the
// pipeline. It returns nil if all requests were answered and the pipeline was drained. The stop takes at most the
// patience plus the pipeline's grace.
func (s *service) run(ctx context.Context, l net.Listener) error {
	ran := make(chan error, 1)
	go func() { ran <- s.p.Run(context.WithoutCancel(ctx)) }() // Stop ends it, because the server must stop before the pipeline
	var served error
	var stop time.Time
	early := false // stopped before it was started
	select {
	case <-s.p.Started(): // the pipeline accepts commands now
		stop, served = s.serve(ctx, l)
	case <-s.p.Done():
		stop = time.Now()
	case <-ctx.Done():
		stop, early = time.Now(), true
	}
	soft, cancel := context.WithDeadline(context.WithoutCancel(ctx), stop.Add(s.patience))
	defer cancel()
	_ = s.p.Stop(soft) // Run returns its error
	err := <-ran
	if early && errors.Is(err, pipeline.ErrStopped) {
		return nil // no job was accepted
	}
	return errors.Join(served, err)
}

// serve serves until ctx ends, the pipeline stops or the server fails. Then it accepts no more connections, and returns
// when the open requests are answered, or after half of the patience: the other half is for the pipeline.
func (s *service) serve(ctx context.Context, l net.Listener) (stop time.Time, err error) {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	select {
	case <-ctx.Done():
	case <-s.p.Done():
	case err = <-served:
		return time.Now(), errors.Join(err, s.server.Close())
	}
	stop = time.Now()
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience/2)
	defer cancel()
	if err = s.server.Shutdown(soft); err != nil {
		err = errors.Join(err, s.server.Close())
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return stop, err
}

// job answers POST /jobs.
func (s *service) job(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1024))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusAccepted
	if r.URL.Query().Has("wait") {
		status = http.StatusOK
		_, err = stage.Call[string](r.Context(), s.check, string(body)) // the job ends when its client no longer waits
	} else {
		err = s.check.Submit(r.Context(), string(body)) // the job continues when the request is answered
	}
	o, overloaded := stage.Overloaded(err)
	switch {
	case err == nil:
		w.WriteHeader(status)
	case overloaded:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(o.RetryAfter.Seconds()))))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, errEmpty):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
