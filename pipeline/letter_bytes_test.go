package pipeline_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// upload is a command with its data behind a pointer, which its program guards with a lock.
type upload struct {
	mu   sync.Mutex
	body []byte
}

func (u *upload) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.body)
}

// heapInUse returns how many bytes of the heap are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLettersOfLargeCommandsAreBoundedInMemory(t *testing.T) {
	const many, each, bound = 3000, 64 << 10, 8 << 20
	fail := func(context.Context, any) behaviour.Outcome { return behaviour.Error(errNo) }
	for name, row := range map[string]struct {
		make  func() any
		parts []pipeline.Part
	}{
		"by default": {make: func() any { return make([]byte, each) }},
		"as the user says": {
			make: func() any { return &upload{body: make([]byte, each)} },
			parts: []pipeline.Part{letters.Type[any]{Size: func(cmd any) int {
				return cmd.(*upload).size()
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stage.Func("s", fail)
			p := run(t, append(row.parts, s, pipeline.KeepLetters(letters.Options{Most: many, Bytes: bound}))...)
			before := heapInUse()
			for range many {
				require.NoError(t, s.Submit(t.Context(), row.make()))
			}
			require.NoError(t, p.Drain(t.Context()))
			require.Less(t, heapInUse()-before, int64(2*bound))
			require.InDelta(t, bound/each, p.Failures().Len(), 1)
			require.EqualValues(t, many-p.Failures().Len(), p.Failures().Dropped())
		})
	}
}

func TestBoundsOfLettersThatCannotBeAreRefused(t *testing.T) {
	for want, part := range map[string]pipeline.Part{
		"KeepLetters: Bytes: -2 must be -1, for none, or more": pipeline.KeepLetters(letters.Options{Bytes: -2}),
		"letters.Type[string]: all functions are nil":          letters.Type[string]{},
		"letters.Type[interface {}]: all functions are nil":    letters.Type[any]{},
	} {
		s := stage.Func("s", func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) })
		_, err := pipeline.New("test", s, quiet, part)
		require.ErrorContains(t, err, want)
	}
}
