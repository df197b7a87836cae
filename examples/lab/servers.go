package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"golang.org/x/net/netutil"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The servers that -servers compares: the same handler, in four ways.
const (
	golda      = "adapter/http"  // as a stage with an objective
	plain      = "net/http"      // alone
	failsafed  = "failsafe-go"   // under the adaptive limiter, with its defaults
	limitConns = "LimitListener" // with as many connections as can be answered in time
)

// What the handler takes: one of a few connections to a database, for some time.
const (
	connections = 4
	query       = 80 * time.Millisecond
	mostAnswers = float64(connections) * float64(time.Second) / float64(query) // a second
	inAServer   = 500 * time.Millisecond                                       // the deadline
	givesUp     = 2 * inAServer                                                // the client, without an answer
)

// server is a candidate of the comparison of servers. Only golda's has a policy
// that does something.
type server struct {
	policy.Fixed

	name string
}

// Name returns the name of the server.
func (s server) Name() string { return s.name }

// servers returns the candidates.
func servers() (all []lab.Candidate) {
	for _, name := range []string{plain, limitConns, failsafed} {
		all = append(all, lab.Candidate{Name: name, Policies: []controller.Policy{server{name: name}}})
	}
	// What HTTP takes comes on top of the response time of the pipeline.
	return append(all, lab.Candidate{Name: golda, Policies: []controller.Policy{policy.Objective{Within: inAServer * 4 / 5}}})
}

// compareServers compares the servers.
func compareServers(ctx context.Context, c config, progress io.Writer) (*lab.Report, error) {
	return lab.Compare(ctx, lab.Experiment{
		Title: fmt.Sprintf("Four servers with the same handler, which needs one of %d connections to a database for %v, under %g times their capacity for half of a run, "+
			"and half of it otherwise. The capacity is %.0f/s. The clients give up after %v.", connections, query, c.workload.peak, mostAnswers, givesUp),
		Pipeline:   serve,
		Workload:   burst(0.5, c.workload.peak, 0.2, 0.7)(mostAnswers, c.length),
		Candidates: servers(), Deadline: inAServer,
		Length: c.length, Warmup: c.warmup, Runs: c.runs, Seed: c.seed, Late: c.late, Progress: progress,
	})
}

// database has a few connections. A caller waits for one in the order of
// arrival, until its context ends.
type database chan struct{}

func (d database) query(ctx context.Context, _ struct{}) (string, error) {
	select {
	case d <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-d }()
	rest(ctx, query)
	return "done", ctx.Err()
}

// ServeHTTP answers with the result of a query.
func (d database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := d.query(r.Context(), struct{}{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
		return
	}
	_, _ = io.WriteString(w, answer)
}

// serve starts a server, and returns its pipeline and a client. The pipelines of
// the servers that are not Golda's have nothing to do. The server ends with its
// pipeline.
func serve(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
	db := make(database, connections)
	ask := stage.Map("ask", db.query, stage.Blocking(), stage.Workers(connections, connections))
	p, err := pipeline.New("servers", ask, control, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	address := (&url.URL{Scheme: "http", Host: listener.Addr().String()}).String()
	var handler http.Handler = db
	switch p.Snapshot().Policy {
	case limitConns:
		listener = netutil.LimitListener(listener, 2*connections)
	case failsafed:
		handler = limited(db)
	case plain:
	default:
		h := stagehttp.New(ask.Call)
		h.Decode = func(*http.Request) (struct{}, error) { return struct{}{}, nil }
		h.Log = slog.New(slog.DiscardHandler) // clients that give up are part of the load
		handler = h
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: givesUp}
	go func() { _ = srv.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 1 << 12}
	go func() {
		<-p.Done()
		_ = srv.Close()
		transport.CloseIdleConnections()
	}()
	client := &http.Client{Transport: transport, Timeout: givesUp}
	return p, func(ctx context.Context, _ lab.Request) error { return get(ctx, client, address) }, nil
}

// limited is a handler behind failsafe-go's adaptive limiter.
func limited(h http.Handler) http.Handler {
	limiter := adaptivelimiter.NewWithDefaults[any]()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permit, ok := limiter.TryAcquirePermit()
		if !ok {
			http.Error(w, "too many requests", http.StatusServiceUnavailable)
			return
		}
		defer permit.Record()
		h.ServeHTTP(w, r)
	})
}

// refusedError is the error of an answer 429 or 503.
type refusedError struct{ status int }

// Error has the status.
func (e refusedError) Error() string { return http.StatusText(e.status) }

// Overload says that the server had too much to do.
func (e refusedError) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: reason.Full}, true
}

// get sends one request.
func get(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	err = errors.Join(err, response.Body.Close())
	switch status := response.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return refusedError{status}
	case status != http.StatusOK:
		return errors.New(response.Status)
	default:
		return err
	}
}
