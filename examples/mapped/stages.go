package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// scan is a document as a picture; text is the text of the picture.
type (
	scan struct {
		ID     int
		Pixels []byte
	}
	text struct {
		ID    int
		Words []string
	}
)

// carrierOptions are the options of the queues between the processes. A message
// that a killed process was handling is delivered to another process after two
// seconds; the default is 30.
var carrierOptions = nats.Options[any]{AckWait: 2 * time.Second, MaxInFlight: 64, Retry: stage.RetryPolicy{Attempts: 100}}

// stages returns the pipeline: the stages, how they are connected, and which
// process must run which stage.
func (c config) stages(index *index) []pipeline.Part {
	load := stage.Map("load", func(_ context.Context, n int) (scan, error) { return paint(n), nil })
	read := stage.Map("read", func(ctx context.Context, s scan) (text, error) { return recognise(ctx, s, c.each) },
		stage.Workers(c.workers, c.workers), stage.Blocking())
	correct := stage.Map("correct", func(_ context.Context, t text) (text, error) {
		for i, word := range t.Words {
			t.Words[i] = strings.ToLower(word)
		}
		return t, nil
	})
	enter := stage.Sink("enter", func(_ context.Context, t text) error { return index.add(t) }, stage.Workers(1, 1))
	return []pipeline.Part{
		pipeline.Feed("documents", load, source.Seq(upTo(c.documents))),
		load.To(read), read.To(correct), correct.To(enter),
		pipeline.Assign("load", "load"),
		pipeline.Assign("ocr", "read", "correct"),
		pipeline.Assign("index", "enter"),
	}
}

// upTo returns the numbers from 0.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// mask makes a picture of a text, and a text of a picture.
const mask = 0x55

// paint makes the picture of a document.
func paint(n int) scan {
	pixels := fmt.Appendf(nil, "Document %d Has %d Words", n, n%7)
	for range n % 7 {
		pixels = append(pixels, " Word"...)
	}
	for i := range pixels {
		pixels[i] ^= mask
	}
	return scan{n, pixels}
}

// recognise reads a picture, which takes a while.
func recognise(ctx context.Context, s scan, while time.Duration) (text, error) {
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return text{}, context.Cause(ctx)
	}
	letters := make([]byte, len(s.Pixels))
	for i, p := range s.Pixels {
		letters[i] = p ^ mask
	}
	return text{s.ID, strings.Fields(string(letters))}, nil
}

// index has the words of the documents. A document may come twice.
type index struct {
	want int
	full chan struct{} // closed when all documents are there
	file *os.File      // nil if there is none

	mu    sync.Mutex // guards the rest
	words map[int]int
}

func newIndex(file string, want int) (i *index, err error) {
	i = &index{want: want, full: make(chan struct{}), words: map[int]int{}}
	if file != "" {
		i.file, err = os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	return i, err
}

// add adds a document.
func (i *index) add(t text) error {
	if i.file != nil {
		if _, err := fmt.Fprintf(i.file, "%d %d\n", t.ID, len(t.Words)); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.words[t.ID] = len(t.Words)
	if len(i.words) == i.want {
		select {
		case <-i.full: // a document has arrived again
		default:
			close(i.full)
		}
	}
	return nil
}

// sum returns how many documents there are, and how many words they have.
func (i *index) sum() (documents, words int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, n := range i.words {
		words += n
	}
	return len(i.words), words
}

func (i *index) close() error {
	if i.file == nil {
		return nil
	}
	return errors.Join(i.file.Sync(), i.file.Close())
}
