package letters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// A command with unexported fields needs a codec to be kept, exported and imported.
func ExampleType() {
	type account struct{ number string }
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	closing := stage.Sink("close", func(context.Context, account) error { return errors.New("the account is not empty") })
	p, err := pipeline.New("bank", closing, pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.KeepLetters(letters.Options{Dir: dir}),
		letters.Type[account]{
			Encode: func(a account) ([]byte, error) { return []byte(a.number), nil },
			Decode: func(text []byte) (account, error) { return account{string(text)}, nil },
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_ = closing.Submit(ctx, account{"4711"})
	for p.Failures().Len() == 0 { // the letter is kept a moment after the command has ended
		time.Sleep(time.Millisecond)
	}
	var out bytes.Buffer
	fmt.Println(p.Failures().Export(&out))
	p.Failures().Clear(letters.Filter{})
	fmt.Println(p.Failures().Import(&out))
	_ = p.Stop(ctx)
	for _, letter := range p.Failures().List(letters.Filter{}) {
		fmt.Println(letter.Command, letter.Err)
	}
	// Output:
	// <nil>
	// 1 <nil>
	// {4711} the account is not empty
}
