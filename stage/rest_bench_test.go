package stage_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// One command at a time to stages at rest, as a server submits them: other code has used the caches since the last one, and each has a
// context of its own. The time is that from the submission until all is at rest again, on one processor: also what happens after
// the answer. The fifth part of the commands that is quickest differs by a few percent only while other programs use the machine.
//
//	go test -run '^$' -bench Rest -benchtime 10000x -count 10 ./stage
func BenchmarkRest(b *testing.B) {
	b.Run("by=nothing", func(b *testing.B) { rest(b, func(context.Context) error { return nil }) })
	b.Run("by=chan", func(b *testing.B) {
		jobs := make(chan chan error, 1024)
		defer close(jobs)
		for range 8 {
			go func() {
				for done := range jobs {
					done <- nil
				}
			}()
		}
		rest(b, func(ctx context.Context) error {
			done := make(chan error, 1)
			jobs <- done
			select {
			case err := <-done:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	check := func(_ context.Context, job string) (string, error) { return job, nil }
	store := func(context.Context, string) error { return nil }
	b.Run("by=submit/stages=1", func(b *testing.B) {
		s := stage.Sink("store", store)
		restIn(b, s, s.Submit)
	})
	b.Run("by=submit/stages=2", func(b *testing.B) {
		s := stage.Map("check", check)
		restIn(b, stage.Chain(s, stage.Sink("store", store)), s.Submit)
	})
	b.Run("by=call/stages=1", func(b *testing.B) {
		s := stage.Sink("store", store)
		restIn(b, s, func(ctx context.Context, job string) error { _, err := s.Call(ctx, job); return err })
	})
	b.Run("by=call/stages=2", func(b *testing.B) {
		s := stage.Chain(stage.Map("check", check), stage.Sink("store", store))
		restIn(b, s, func(ctx context.Context, job string) error { _, err := s.Call(ctx, job); return err })
	})
}

func restIn(b *testing.B, part pipeline.Part, ask func(ctx context.Context, job string) error) {
	p, err := pipeline.New("rest", part)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	rest(b, func(ctx context.Context) error { return ask(ctx, "job") })
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func rest(b *testing.B, ask func(context.Context) error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	type key string
	server := context.WithValue(context.WithValue(b.Context(), key("server"), 1), key("address"), 2)
	connection, hangUp := context.WithCancel(server)
	defer hangUp()
	junk := make([]byte, 192<<10)
	took := make([]time.Duration, 0, b.N)
	for n := range b.N + 100 {
		useCaches(b, junk)
		ctx, cancel := context.WithCancel(connection)
		begin := time.Now()
		if err := ask(ctx); err != nil {
			b.Fatal(err)
		}
		runtime.Gosched() // a worker that yields is at the end of the run queue, and comes to rest after the second
		runtime.Gosched()
		if n >= 100 {
			took = append(took, time.Since(begin))
		}
		cancel()
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op") // it would include useCaches
	b.ReportMetric(float64(took[len(took)/5]), "p20-ns")
}

// useCaches has the first caches filled with other code and data.
func useCaches(b *testing.B, junk []byte) {
	b.Helper()
	const raw = "POST /jobs HTTP/1.1\r\nHost: x\r\nUser-Agent: a\r\nContent-Length: 1\r\nAccept-Encoding: gzip\r\n\r\nx"
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader([]byte(raw))))
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = (&http.Response{StatusCode: http.StatusNoContent, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Date": {"x"}}}).Write(io.Discard)
	var v any
	if err := json.Unmarshal([]byte(`{"a":[1,2,{"b":"c"}]}`), &v); err != nil {
		b.Fatal(err)
	}
	_, _ = json.Marshal(v)
	for i := 0; i < len(junk); i += 64 {
		junk[i]++
	}
}
