package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// byHand is service without Golda: the handlers put jobs into a channel, and as many goroutines as the stage store may have
// workers take them out. As many jobs are queued as in both stages. A crash of store ends the process.
type byHand struct {
	jobs     chan queued
	store    func(job string)
	server   *http.Server
	patience time.Duration
}

// queued is a job in the channel.
type queued struct {
	ctx  context.Context // ends when the job is no longer wanted
	job  string
	done chan error // how it ended; for one error
}

func newByHand(c config, store func(job string)) *byHand {
	s := &byHand{jobs: make(chan queued, 2*c.capacity), store: store, patience: c.patience}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.enqueue(context.WithoutCancel(r.Context()), w, r); ok {
			w.WriteHeader(http.StatusAccepted)
		}
	})
	mux.HandleFunc("POST /jobs/done", func(w http.ResponseWriter, r *http.Request) {
		q, ok := s.enqueue(r.Context(), w, r)
		if !ok {
			return
		}
		select {
		case err := <-q.done:
			switch {
			case errors.Is(err, errEmpty):
				http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			case err != nil:
				http.Error(w, "internal error", http.StatusInternalServerError)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		case <-r.Context().Done():
		}
	})
	s.server = &http.Server{Handler: mux, ReadTimeout: 5 * time.Second}
	return s
}

// enqueue queues the job of a request, or answers why it does not.
func (s *byHand) enqueue(ctx context.Context, w http.ResponseWriter, r *http.Request) (q queued, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1024))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return q, false
	}
	q = queued{ctx, string(body), make(chan error, 1)}
	select {
	case s.jobs <- q:
		return q, true
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the queue is full", http.StatusServiceUnavailable)
		return q, false
	}
}

// work does jobs until the channel is closed.
func (s *byHand) work() {
	for q := range s.jobs {
		if q.ctx.Err() != nil {
			continue
		}
		job, err := check(q.ctx, q.job)
		if err == nil {
			s.store(job)
		}
		q.done <- err
	}
}

// run serves until ctx ends. It returns nil if all requests were answered and all jobs were done.
func (s *byHand) run(ctx context.Context, l net.Listener) error {
	var workers sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		workers.Go(s.work)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	select {
	case err := <-served:
		return errors.Join(err, s.server.Close())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	if err := s.server.Shutdown(stop); err != nil {
		return errors.Join(err, s.server.Close()) // handlers may still use the channel
	}
	<-served
	close(s.jobs) // no handler is left
	drained := make(chan struct{})
	go func() {
		workers.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-stop.Done():
		return context.Cause(stop)
	}
}
