package shared

import (
	"context"
	"net/http"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func build(client *http.Client, other *stage.Stage[int]) pipeline.Part {
	fetch := stage.Sink("fetch", func(ctx context.Context, url string) error {
		res, err := http.Get(url) // want `http.Get waits, and the handler's stage shares the workers of the group "cpu": leave the stage out of the group`
		if err != nil {
			return err
		}
		defer res.Body.Close()
		time.Sleep(time.Second)                           // want `time.Sleep waits`
		_, err = stage.Call[int](ctx, other, len(url))    // want `stage.Call waits`
		_, err = client.Do(&http.Request{Method: "POST"}) // want `http.Client.Do waits`
		return err
	})
	inside := stage.Sink("inside", func(context.Context, int) error {
		go time.Sleep(time.Second)
		return nil
	})
	return pipeline.Group("cpu", 1, 4, fetch, inside, stage.Sink("inline", func(context.Context, int) error {
		time.Sleep(time.Second) // want `time.Sleep waits`
		return nil
	}))
}

var alone = stage.Sink("alone", func(context.Context, int) error {
	time.Sleep(time.Second)
	return nil
}, stage.Blocking())
