package cookbook

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_mergeTwoFeeds() {
	file := strings.NewReader("1\n2\n")
	messages := make(chan []byte, 1)
	messages <- []byte(`{"value": 40}`)
	close(messages) // then the feed is exhausted

	fromText := stage.Map("text", func(_ context.Context, line string) (int, error) { return strconv.Atoi(line) })
	fromJSON := stage.Map("json", func(_ context.Context, text []byte) (int, error) {
		var m struct {
			Value int `json:"value"`
		}
		err := json.Unmarshal(text, &m)
		return m.Value, err
	})
	sum := 0
	add := stage.Sink("add", func(_ context.Context, n int) error {
		sum += n
		return nil
	}, stage.Workers(1, 1))

	err := run(fromText.To(add), fromJSON.To(add),
		pipeline.Feed("file", fromText, source.Lines(file, 0)),
		pipeline.Feed("messages", fromJSON, source.Chan(messages)))
	fmt.Println(sum, err) // when both feeds are exhausted
	// Output: 43 <nil>
}
