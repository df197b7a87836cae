package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/operate"
	"github.com/golda-dev/golda/stage"
)

// scale weighs the images in progress in a stage.
type scale struct {
	mu          sync.Mutex // guards the fields below
	now, images int
	heaviest    int // of several images at once
}

func (s *scale) add(pixels, images int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += pixels
	s.images += images
	if s.images > 1 {
		s.heaviest = max(s.heaviest, s.now)
	}
}

// HandleCommand takes some time, so that as many images as possible are in progress.
func (s *scale) HandleCommand(_ context.Context, j *job) behaviour.Outcome {
	size := weigh(j.path, maxPixels)
	s.add(size, 1)
	time.Sleep(time.Millisecond)
	s.add(-size, -1)
	return behaviour.OK(nil)
}

func TestThePixelsInProgressAreWithinTheBudget(t *testing.T) {
	p := newPlace(t)
	files := map[string][]byte{"0.png": nil, "1.png": []byte("no image"), "2.png": bomb(t)}
	for i := range 40 {
		files[fmt.Sprintf("%d.png", i+10)] = blank(t, 10) // 100 pixels
	}
	files["20.png"] = blank(t, 30) // more than the budget
	p.fill(t, files)

	var seen scale
	entry := stage.New[*job]("weigh", &seen, stage.Workers(8, 8), stage.Batch(1))
	line, err := pipeline.New("images", entry)
	require.NoError(t, err)
	require.NoError(t, line.Start(t.Context()))
	src := &source{entry: entry, window: 8, budget: 8 * 350, most: maxPixels}
	var jobs []*job
	for _, name := range names(t, p.in) {
		jobs = append(jobs, &job{path: filepath.Join(p.in, name)})
	}
	require.NoError(t, src.run(t.Context(), slices.Values(jobs)))
	require.NoError(t, line.Stop(t.Context()))

	assert.Equal(t, 43, src.begun, "the image that is larger than the budget passes alone, and a file that is no image weighs nothing")
	assert.Zero(t, src.bytes)
	assert.Equal(t, 8*300, seen.heaviest)
}

// blank returns a PNG file of an image with sides of that length.
func blank(t *testing.T, side int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))))
	return b.Bytes()
}

func TestNoPolicyDeadlocksOnThePixelBudget(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.png": blank(t, 4), "b.png": blank(t, 5), "c.png": blank(t, 6)})
	for _, name := range policy.Names() {
		if name == "codel" || name == "rt90" {
			continue // they drop or refuse commands in an overload
		}
		t.Run(name, func(t *testing.T) {
			pol, err := policy.ByName(name)
			require.NoError(t, err)
			r := &runner{config: config{in: p.in, out: t.TempDir(), workers: 1, maxPixels: maxPixels, policy: pol}, files: names(t, p.in)}
			line, entry, err := plan(r.config, &outbox{}, &r.alive, io.Discard)
			require.NoError(t, err)
			require.NoError(t, line.Start(t.Context()))
			src := &source{entry: entry, window: 8, budget: 1, most: maxPixels}
			require.NoError(t, src.run(t.Context(), r.jobs()))
			require.NoError(t, line.Stop(t.Context()))
			assert.Equal(t, 1, r.alive.most(), "one at a time")
			assert.Empty(t, src.failures.lines)
		})
	}
}

// An operator bounds the rate of the first stage while the program runs. The stage refuses images for now, and the program waits.
func TestARateOfAnOperatorDelaysTheImagesAndLosesNone(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.png": blank(t, 4), "b.png": blank(t, 5), "c.png": blank(t, 6)})
	r := &runner{config: config{in: p.in, out: t.TempDir(), workers: 1, maxPixels: maxPixels, policy: policy.Fixed{}}, files: names(t, p.in)}
	line, entry, err := plan(r.config, &outbox{}, &r.alive, io.Discard)
	require.NoError(t, err)
	require.NoError(t, line.Start(t.Context()))
	_, err = operate.New(line, "ann").Rate("load", controller.Rate{PerSecond: 50, Burst: 1})
	require.NoError(t, err)
	src := &source{entry: entry, window: 8, budget: byteBudget, most: maxPixels}
	require.NoError(t, src.run(t.Context(), r.jobs()))
	require.NoError(t, line.Stop(t.Context()))
	assert.EqualValues(t, 3, line.Snapshot().Replied)
	assert.Positive(t, line.Snapshot().Stages[0].Counts.Rejected, "it would show nothing otherwise")
	assert.Empty(t, src.failures.lines)
}

func TestImagesThatNeverReachSaveAreNotCounted(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.png": blank(t, 4), "b.png": blank(t, 5), "c.txt": []byte("no image")})
	r := &runner{config: config{in: p.in, out: p.out, workers: 1, maxPixels: maxPixels, policy: policy.Fixed{}}, files: names(t, p.in)}
	row := newLine(r.config)
	entry := row.add("load", func(next *port) behaviour.Behaviour[*job] { return load{most: maxPixels, alive: &r.alive, next: next} })
	row.end("broken", behaviour.Func[*job](func(context.Context, *job) behaviour.Outcome { panic("always") }))
	line, err := pipeline.New("images", append(row.parts,
		pipeline.DeadLetters(r.alive.removeDead), pipeline.Logger(errorLog(io.Discard)))...)
	require.NoError(t, err)
	require.NoError(t, line.Start(t.Context()))
	src := &source{entry: entry, window: 8, budget: byteBudget, most: maxPixels}
	require.NoError(t, src.run(t.Context(), r.jobs()))
	require.NoError(t, line.Stop(t.Context()))
	assert.Len(t, src.failures.lines, 3)
	assert.Equal(t, 2, r.alive.most())
	assert.Zero(t, r.alive.now)
}
