package stagehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// post posts a body and returns the answer.
func post(url, body string) string {
	w, err := http.Post(url, "application/json", strings.NewReader(body))
	check(err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	check(err)
	return strings.TrimSpace(fmt.Sprintf("%d %s", w.StatusCode, text))
}

// A stage as an HTTP service.
func ExampleNew() {
	type Order struct{ Pieces int }
	type Quote struct{ Cents int }
	errNothing := errors.New("order at least one piece")

	price := stage.Map("price", func(_ context.Context, o Order) (Quote, error) {
		if o.Pieces < 1 {
			return Quote{}, errNothing
		}
		return Quote{o.Pieces * 250}, nil
	}, stage.Overflow(overflow.Reject))
	p, err := pipeline.New("shop", price)
	check(err)
	check(p.Start(context.Background()))

	h := stagehttp.New(price.Call)
	h.Problem = func(err error) (int, string) {
		if errors.Is(err, errNothing) {
			return http.StatusUnprocessableEntity, errNothing.Error()
		}
		return 0, "" // the table of the package
	}
	s := httptest.NewServer(h)
	fmt.Println(post(s.URL, `{"Pieces": 3}`))
	fmt.Println(post(s.URL, `{"Pieces": 0}`))
	fmt.Println(post(s.URL, `three`))
	s.Close()
	check(p.Stop(context.Background()))
	// Output:
	// 200 {"Cents":750}
	// 422 {"title":"Unprocessable Entity","status":422,"detail":"order at least one piece"}
	// 400 {"title":"Bad Request","status":400,"detail":"invalid character 'h' in literal true (expecting 'r')"}
}

// An answer with any number of results, each a line.
func ExampleStream() {
	rows := stage.Sink("rows", stagehttp.Send[string], stage.Workers(1, 1))
	split := stage.FlatMap("split", func(_ context.Context, text string, emit func(string) error) error {
		for word := range strings.FieldsSeq(text) {
			if err := emit(word); err != nil {
				return err
			}
		}
		return nil
	})
	p, err := pipeline.New("words", split.To(rows))
	check(err)
	check(p.Start(context.Background()))
	s := httptest.NewServer(stagehttp.Stream(split.Call))
	fmt.Println(post(s.URL, `"one two three"`))
	s.Close()
	check(p.Stop(context.Background()))
	// Output:
	// 200 "one"
	// "two"
	// "three"
}

// A server that loses no accepted job when it is stopped. A main function gets ctx from signal.NotifyContext, and calls Run.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	done := 0
	job := stage.Sink("job", func(context.Context, string) error { done++; return nil }, stage.Workers(1, 1))
	p, err := pipeline.New("jobs", job, pipeline.DrainTimeout(20*time.Second))
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)

	ended := make(chan error)
	server := &http.Server{Handler: stagehttp.Accept(job.Submit), ReadTimeout: 5 * time.Second}
	go func() { ended <- stagehttp.Serve(ctx, l, server, p) }()
	for range 3 {
		fmt.Println(post("http://"+l.Addr().String(), `"a job"`))
	}
	stop()
	fmt.Println(<-ended, done, "done,", p.Ending())
	// Output:
	// 202
	// 202
	// 202
	// <nil> 3 done, stopped
}

// A sink that posts commands, and tries again while the server is overloaded or cannot be reached.
func ExamplePost() {
	tries := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	save := stage.Sink("save", stagehttp.Post[string](http.DefaultClient, s.URL), stage.Blocking(),
		stage.Retry(stage.RetryPolicy{Attempts: 5, If: stagehttp.Temporary}))
	p, err := pipeline.New("export", save)
	check(err)
	check(p.Start(context.Background()))
	_, err = save.Call(context.Background(), "a row")
	fmt.Println(err, tries)
	http.DefaultClient.CloseIdleConnections()
	s.Close()
	check(p.Stop(context.Background()))
	// Output: <nil> 3
}

// Probes: the process gets requests while the database answers.
func ExampleHealth() {
	s := stage.Sink("save", func(context.Context, string) error { return nil })
	p, err := pipeline.New("shop", s)
	check(err)
	ping := func(context.Context) error { return errors.New("the database is away") }
	health := stagehttp.Health(p, ping)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", health)
	mux.Handle("GET /readyz", health)

	check(p.Start(context.Background()))
	for _, path := range []string{"/livez", "/readyz"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	check(p.Stop(context.Background()))
	// Output:
	// 200 ok
	// 503 the database is away
}
