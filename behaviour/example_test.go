package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// splitter emits the words of a sentence, and forwards the sentence itself. A sentence without words is an error.
type splitter struct {
	words     *behaviour.Port[string]
	sentences *behaviour.Port[string]
}

func (s *splitter) HandleCommand(ctx context.Context, sentence string) behaviour.Outcome {
	words := strings.Fields(sentence)
	if len(words) == 0 {
		return behaviour.Error(errors.New("there are no words"))
	}
	for _, w := range words {
		if err := behaviour.Emit(ctx, s.words, w); err != nil {
			return behaviour.Error(err)
		}
	}
	return behaviour.Forward(s.sentences, sentence)
}

// A behaviour answers a command with OK, Forward or Error, and may emit further commands.
func Example() {
	s := &splitter{behaviour.NewPort[string]("words"), behaviour.NewPort[string]("sentences")}
	split := stage.New("split", s, stage.Out(s.words, s.sentences))
	words := 0
	count := stage.Func("count", func(context.Context, string) behaviour.Outcome {
		words++
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	shout := stage.Func("shout", func(_ context.Context, sentence string) behaviour.Outcome {
		return behaviour.OK(strings.ToUpper(sentence)) // the result for the caller
	})
	p, err := pipeline.New("example", split, count, shout, pipeline.Wire(s.words, count), pipeline.Wire(s.sentences, shout))
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	fmt.Println(stage.Call[string](ctx, split, "hello pipelines"))
	fmt.Println(stage.Call[string](ctx, split, " "))
	check(p.Stop(ctx))
	fmt.Println(words, "words")
	// Output:
	// HELLO PIPELINES <nil>
	//  stage "split": there are no words
	// 2 words
}

// A handler can know how often its command was tried, and do less work when a policy asks the stage for less quality.
func ExampleAttempt() {
	search := stage.Func("search", func(ctx context.Context, text string) behaviour.Outcome {
		if behaviour.Attempt(ctx) == 1 {
			panic("the index is being rebuilt")
		}
		results := int(10 * behaviour.Quality(ctx)) // 10 unless a policy degrades the stage
		return behaviour.OK(fmt.Sprintf("%d results for %s, at try %d", results, text, behaviour.Attempt(ctx)))
	}, stage.Retry(stage.RetryPolicy{Attempts: 2}))
	p, err := pipeline.New("example", search, pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	fmt.Println(stage.Call[string](ctx, search, "golda"))
	check(p.Stop(ctx))
	// Output: 10 results for golda, at try 2 <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
