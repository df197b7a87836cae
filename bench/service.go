package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The schedule of W15.
const (
	postEvery = 500 * time.Microsecond // 2,000 a second
	posts     = 4_000
	warmPosts = 500 // not measured
	// stepRounds is how many times the work of W3 a step does: some 20 µs.
	stepRounds = 10
)

// purchase is the body of a request of W15, and of its answer.
type purchase struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
	Price uint64 `json:"price"`
}

// purchaseStep is one of the three steps of a request: the same function for
// all implementations.
func purchaseStep(rounds int) func(context.Context, purchase) (purchase, error) {
	return func(_ context.Context, p purchase) (purchase, error) {
		p.Price += spin(rounds) & 1
		return p, nil
	}
}

// service makes the handler of W15's requests from the three steps.
type service func(steps [3]func(context.Context, purchase) (purchase, error)) (h http.Handler, stop func(), err error)

// goldaService has a stage for each step, and one call through all of them for
// each request.
func goldaService(steps [3]func(context.Context, purchase) (purchase, error)) (http.Handler, func(), error) {
	check, price, confirm := stage.Map("check", steps[0]), stage.Map("price", steps[1]), stage.Map("confirm", steps[2])
	shop := stage.Chain(stage.Chain(check, price), confirm)
	p, err := goldaStarted([]pipeline.Part{shop})
	if err != nil {
		return nil, nil, err
	}
	return stagehttp.New(shop.Call), func() { _ = p.Stop(context.Background()) }, nil
}

// directService calls the steps in the goroutine of the request. It decodes and
// encodes as goldaService does.
func directService(steps [3]func(context.Context, purchase) (purchase, error)) (http.Handler, func(), error) {
	return stagehttp.New(func(ctx context.Context, p purchase) (purchase, error) {
		var err error
		for _, step := range steps {
			if p, err = step(ctx, p); err != nil {
				return p, err
			}
		}
		return p, nil
	}), func() {}, nil
}

// serve measures the requests of clients to a server on the same machine: W15.
// The schedule is as in W5.
func serve(impl implementation, o order) (sample, error) {
	step := purchaseStep(stepRounds * max(1, o.Spin))
	h, stop, err := impl.service([3]func(context.Context, purchase) (purchase, error){step, step, step})
	if err != nil {
		return sample{}, err
	}
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return sample{}, err
	}
	server := &http.Server{Handler: h, ReadTimeout: patience}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: posts}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	url, body := "http://"+l.Addr().String(), []byte(`{"item":"tea","count":3}`)
	post := func(int) error { return postPurchase(client, url, body) }

	n := o.commands(posts)
	if _, err := schedule(o.commands(warmPosts), postEvery, post); err != nil {
		return sample{}, err
	}
	runtime.GC()
	before := used()
	log, err := schedule(n, postEvery, post)
	if err != nil {
		return sample{}, err
	}
	result := log.sample(before, n)
	if o.Moment {
		return result, nil
	}
	return result, log.missed()
}

// postPurchase makes one request.
func postPurchase(client *http.Client, url string, body []byte) error {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the service answered %s", answer.Status)
	}
	return nil
}
