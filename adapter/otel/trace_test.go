package otel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/otel"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
)

// received is a collector of OTLP over HTTP.
type received struct {
	mu  sync.Mutex
	all []*spans.Span
}

// ServeHTTP takes the spans of a request.
func (r *received) ServeHTTP(w http.ResponseWriter, from *http.Request) {
	var request collector.ExportTraceServiceRequest
	body, err := io.ReadAll(from.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || from.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(from.URL.Path, err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.all = append(r.all, scope.GetSpans()...)
		}
	}
}

// named returns the spans of a name, in the order in which they began.
func (r *received) named(name string) (all []*spans.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		if s.GetName() == name {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *spans.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return all
}

// exporting returns a provider that exports each span to a collector at once.
func exporting(ctx context.Context, url string) (*sdk.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(strings.TrimPrefix(url, "http://")), otlptracehttp.WithInsecure())
	if err != nil {
		return nil, err
	}
	return sdk.NewTracerProvider(sdk.WithSyncer(exporter)), nil
}

// deliverer is the second process: the test binary, started with delivererEnv.
type deliverer struct {
	Store     string `json:"store"` // the directory of the server of NATS
	Collector string `json:"collector"`
	Shop      string `json:"shop"` // the orders are posted to it
}

const delivererEnv = "GOLDA_TEST_DELIVERER"

func TestMain(m *testing.M) {
	if text := os.Getenv(delivererEnv); text != "" {
		var d deliverer
		if err := errors.Join(json.Unmarshal([]byte(text), &d), d.run(context.Background())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// run handles orders until standard input is closed. The first try of each
// fails.
func (d *deliverer) run(ctx context.Context) error {
	headers.Use(otel.Headers(nil))
	provider, err := exporting(ctx, d.Collector)
	if err != nil {
		return err
	}
	conn, err := nats.Reach(ctx, d.Store)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[int]{})
	if err != nil {
		return err
	}
	deliver := stage.Sink("deliver", stagehttp.Post[int](http.DefaultClient, d.Shop))
	pack := stage.Func("pack", func(ctx context.Context, n int) behaviour.Outcome {
		if behaviour.Attempt(ctx) == 1 {
			return behaviour.Error(errors.New("no box"))
		}
		return behaviour.Forward(deliver, n)
	}, stage.Retry(stage.RetryPolicy{Attempts: 2}))
	p, err := pipeline.New("deliveries", pack, deliver, pipeline.Feed("orders", pack, orders.Feed),
		pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider})), quiet)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, p.Stop(ctx), provider.Shutdown(ctx))
}

// The trace goes from a client over HTTP to the stages take and send, over an
// inlet to the stages pack and deliver of another process, and over HTTP to a
// server. Pack has two tries.
func TestOneTraceGoesThroughHTTPStagesAnInletAnotherProcessAndHTTP(t *testing.T) {
	headers.Use(otel.Headers(nil))
	defer headers.Use()
	var got received
	collect := httptest.NewServer(&got)
	defer collect.Close()
	provider, err := exporting(t.Context(), collect.URL)
	require.NoError(t, err)

	arrived := make(chan string, 10)
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Traceparent") }))
	defer shop.Close()

	store := t.TempDir()
	conn, err := nats.Embed(store, nats.Store{Listen: ":0"})
	require.NoError(t, err)
	defer conn.Close(context.Background())
	orders, err := nats.NewInlet(t.Context(), conn, "orders", nats.Options[int]{})
	require.NoError(t, err)
	send := stage.Sink("send", func(ctx context.Context, n int) error { return orders.Publish(ctx, "", n) })
	take := stage.Map("take", func(_ context.Context, n int) (int, error) { return n, nil })
	p, err := pipeline.New("orders", take.To(send), send, quiet, pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider})))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	entrance := httptest.NewServer(stagehttp.Accept(take.Submit))
	defer entrance.Close()
	stop := startDeliverer(t, deliverer{store, collect.URL, shop.URL})

	ctx, client := provider.Tracer("test").Start(t.Context(), "client")
	_, err = stagehttp.Do[int, struct{}](nil, func(ctx context.Context, n int) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, entrance.URL, strings.NewReader(strconv.Itoa(n)))
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
		}
		return r, err
	})(ctx, 7)
	require.NoError(t, err)
	client.End()
	var header string
	select {
	case header = <-arrived:
	case <-time.After(time.Minute):
		t.Fatal("no order has arrived")
	}
	stop()
	require.NoError(t, p.Stop(context.Background()))
	require.NoError(t, provider.Shutdown(context.Background()))

	one := func(name string) *spans.Span {
		t.Helper()
		require.Len(t, got.named(name), 1, name)
		return got.named(name)[0]
	}
	tries := got.named("pack")
	require.Len(t, tries, 2)
	way := []*spans.Span{one("client"), one("take"), one("send"), tries[1], one("deliver")}
	for i, s := range way[1:] {
		assert.Equal(t, way[0].GetTraceId(), s.GetTraceId(), s.GetName())
		assert.Equal(t, way[i].GetSpanId(), s.GetParentSpanId(), s.GetName())
	}
	assert.Equal(t, way[0].GetTraceId(), tries[0].GetTraceId())
	assert.Equal(t, tries[0].GetParentSpanId(), tries[1].GetParentSpanId(), "the tries have one parent")
	require.Len(t, tries[1].GetLinks(), 1)
	assert.Equal(t, tries[0].GetSpanId(), tries[1].GetLinks()[0].GetSpanId(), "the second is linked to the first")
	assert.Equal(t, spans.Status_STATUS_CODE_ERROR, tries[0].GetStatus().GetCode())
	assert.Empty(t, tries[0].GetLinks())
	assert.Equal(t, fmt.Sprintf("00-%x-%x-01", way[0].GetTraceId(), way[4].GetSpanId()), header, "the shop could go on")
}

// startDeliverer starts the second process, and returns a function that stops
// it.
func startDeliverer(t *testing.T, d deliverer) (stop func()) {
	t.Helper()
	text, err := json.Marshal(d)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), delivererEnv+"="+string(text))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	end, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return func() {
		require.NoError(t, end.Close())
		require.NoError(t, cmd.Wait(), output.String())
	}
}
