package cookbook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

type reading struct {
	Sensor  string
	Celsius float64
}

func Example_ingestOverHTTP() {
	checked := stage.Filter("check", func(_ context.Context, r reading) (bool, error) {
		if r.Sensor == "" {
			return false, errors.New("a reading without a sensor")
		}
		return r.Celsius > -273.15, nil
	}, stage.Overflow(overflow.Reject)) // 503 at once when the queue is full
	save := stage.Sink("save", func(_ context.Context, r reading) error {
		fmt.Println("saved", r.Sensor, r.Celsius)
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("ingest", checked.To(save))
	check(err)
	check(p.Start(context.Background()))

	accept := stagehttp.Accept(checked.Submit) // 202 when accepted; stagehttp.New(checked.Call) waits for the result
	server := httptest.NewServer(accept)       // a service calls stagehttp.Run, which stops the server before the pipeline
	for _, body := range []string{`{"Sensor": "roof", "Celsius": 21.5}`, `{"Celsius": "warm"}`} {
		r, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		check(err)
		problem, err := io.ReadAll(r.Body)
		check(errors.Join(err, r.Body.Close()))
		fmt.Println(r.StatusCode, len(problem) > 0)
	}
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	check(p.Stop(context.Background()))
	// Unordered output:
	// 202 false
	// 400 true
	// saved roof 21.5
}
