package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/images/picture"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestARunWritesEveryCaptchaAndBalances(t *testing.T) {
	p := newPlace(t)
	done := p.run(t.Context(), "-n", "40", "-json")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	got := done.report(t)
	assert.Equal(t, 40, got.Images)
	assert.EqualValues(t, 40, got.OK)
	assert.Zero(t, got.Failed+got.DeadLettered+got.Crashes)
	assert.True(t, got.Balanced)
	assert.Equal(t, "backlog", got.Policy)
	assert.Positive(t, got.PeakRSSBytes)
	assert.Positive(t, got.ImagesPerS)
	require.NotNil(t, got.CPUMS)
	assert.Positive(t, *got.CPUMS)
	assert.Positive(t, got.PeakLive)
	assert.Zero(t, got.Rounds+got.EmptyVisits, "no pool is shared")
	assert.Empty(t, got.Digest, "it is not compared")
	requireWhole(t, p.out, 40)
	requireSevenStages(t, got.Stages, 40)
	for _, s := range got.Stages {
		assert.GreaterOrEqual(t, s.WorkersMax, 1, s.Name)
	}
}

func requireSevenStages(t *testing.T, stages []stageReport, n uint64) {
	t.Helper()
	require.Len(t, stages, 7)
	for i, s := range stages {
		assert.Equal(t, stageNames()[i], s.Name)
		assert.Equal(t, n, s.Accepted, s.Name)
		assert.Equal(t, n, s.OK+s.Forwarded, s.Name)
	}
	assert.Equal(t, n, stages[6].OK)
}

func TestTheTextEndsWithTheLaw(t *testing.T) {
	done := newPlace(t).run(t.Context(), "-n", "5")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	lines := strings.Split(strings.TrimSpace(done.stdout), "\n")
	require.Len(t, lines, 1+7+1+2)
	assert.Equal(t,
		"accepted 5 = replied 5 + failed 0 + shed 0 + dead-lettered 0 + in flight 0  balanced", lines[len(lines)-1])
	for _, name := range stageNames() {
		assert.Contains(t, done.stdout, " "+name+" ")
	}
}

func TestThePipelineHasTheResultOfTheFiltersInALoop(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"c.jpg": drawn(t, 7)})
	require.Equal(t, show.StatusOK, p.run(t.Context(), "-in", p.in).status)

	want, err := decode(filepath.Join(p.in, "c.jpg"), maxPixels)
	require.NoError(t, err)
	for _, f := range picture.Filters() {
		f.Apply(want)
	}
	got, err := decode(filepath.Join(p.out, "c.png"), maxPixels)
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(want.Pix), sha256.Sum256(got.Pix))
	assert.Equal(t, want.Rect, got.Rect)
}

func TestTheSameSeedGivesTheSameFilesForAnyWorkersAndCrashes(t *testing.T) {
	calm, wild := newPlace(t), newPlace(t)
	require.Equal(t, show.StatusOK, calm.run(t.Context(), "-n", "30", "-workers", "1").status)
	require.Equal(t, show.StatusOK, wild.run(t.Context(), "-n", "30", "-workers", "8", "-policy", "fixed", "-crash", "0.5").status)
	for _, name := range names(t, calm.out) {
		a, err := os.ReadFile(filepath.Join(calm.out, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(wild.out, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, b), name)
	}
	assert.Equal(t, names(t, calm.out), names(t, wild.out))
}

func TestCrashesCostNoImage(t *testing.T) {
	for _, share := range []string{"0.05", "0.3", "1"} {
		t.Run(share, func(t *testing.T) {
			p := newPlace(t)
			args := []string{"-n", "70", "-crash", share, "-json", "-seed", "3"}
			first := p.run(t.Context(), args...).report(t)
			again := p.run(t.Context(), args...)
			got := again.report(t)
			require.Equal(t, show.StatusOK, again.status, again.stderr)
			assert.EqualValues(t, 70, got.OK)
			assert.Positive(t, got.Crashes)
			assert.True(t, got.Balanced)
			assert.Equal(t, first.Crashes, got.Crashes, "the same seed crashes in the same places")
			requireWhole(t, p.out, 70)
			for _, s := range got.Stages {
				assert.Equal(t, s.Crashes, s.Retries, s.Name)
			}
		})
	}
}

func TestFilesThatAreNoImagesAreNamedAndTheOthersAreProcessed(t *testing.T) {
	p := newPlace(t)
	good := drawn(t, 1)
	p.fill(t, map[string][]byte{
		"good1.jpg":  good,
		"good2.jpeg": good,
		"empty.png":  nil,
		"short.jpg":  good[:len(good)/2],
		"header.jpg": good[:20],
		"notes.txt":  []byte("not an image at all"),
		"bomb.png":   bomb(t),
		".hidden":    []byte("not read"),
	})
	require.NoError(t, os.Mkdir(filepath.Join(p.in, "directory.jpg"), 0o777))

	done := p.run(t.Context(), "-in", p.in, "-json")
	got := done.report(t)
	assert.Equal(t, show.StatusFailed, done.status)
	assert.Equal(t, 7, got.Images)
	assert.EqualValues(t, 2, got.OK)
	assert.EqualValues(t, 5, got.Failed)
	assert.EqualValues(t, 5, got.Stages[0].Errors)
	assert.True(t, got.Balanced)
	assert.Equal(t, []string{"good1.png", "good2.png"}, names(t, p.out))
	for name, why := range map[string]string{
		"empty.png": "the file is empty", "short.jpg": "short Huffman data", "header.jpg": "ends too early",
		"notes.txt": "unknown format", "bomb.png": "too many",
	} {
		line := lineWith(done.stderr, name)
		assert.Contains(t, line, `stage "load": `+filepath.Join(p.in, name)+": ")
		assert.Contains(t, line, why)
	}
	assert.Contains(t, done.stderr, "images: 5 of 7 images failed")
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// bomb returns a small file that claims to be an image of 60000 × 60000 pixels.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))))
	return rewriteHeader(b.Bytes(), 60000)
}

func TestAnImageThatCannotBeWrittenIsAnErrorOfSave(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.jpg": drawn(t, 1), "b.jpg": drawn(t, 2)})
	require.NoError(t, os.MkdirAll(filepath.Join(p.out, "a.png", "in the way"), 0o777))
	done := p.run(t.Context(), "-in", p.in)
	assert.Equal(t, show.StatusFailed, done.status)
	assert.Contains(t, done.stderr, `failed: stage "save": `+filepath.Join(p.in, "a.jpg")+": cannot write "+filepath.Join(p.out, "a.png"))
	assert.Equal(t, []string{"a.png", "b.png"}, names(t, p.out), "no temporary file is left")
}

func TestImagesOfOneBaseNameAreBothKept(t *testing.T) {
	p := newPlace(t)
	var animal, dot bytes.Buffer
	red := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.RGBA{255, 0, 0, 255}})
	require.NoError(t, gif.Encode(&animal, red, nil))
	require.NoError(t, png.Encode(&dot, image.NewGray(image.Rect(0, 0, 5, 4))))
	p.fill(t, map[string][]byte{"a.jpg": drawn(t, 1), "a.gif": animal.Bytes(), "b.png": dot.Bytes()})
	done := p.run(t.Context(), "-in", p.in, "-json")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	assert.EqualValues(t, 3, done.report(t).OK)
	assert.Equal(t, []string{"a.gif.png", "a.jpg.png", "b.png"}, names(t, p.out))
	img, err := decode(filepath.Join(p.out, "a.gif.png"), maxPixels)
	require.NoError(t, err)
	assert.Equal(t, image.Pt(3, 2), img.Rect.Size())
}

func TestNTakesTheFirstFilesOfADirectory(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"c.jpg": drawn(t, 1), "a.jpg": drawn(t, 2), "b.jpg": drawn(t, 3)})
	require.Equal(t, show.StatusOK, p.run(t.Context(), "-in", p.in, "-n", "2").status)
	assert.Equal(t, []string{"a.png", "b.png"}, names(t, p.out))
}

func TestAnInterruptedRunFinishesTheImagesInProgress(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for { // until the first image is there
			if list, _ := os.ReadDir(p.out); len(list) > 1 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	done := p.run(ctx, "-n", "400", "-json")
	assert.Equal(t, show.StatusInterrupted, done.status)
	got := done.report(t)
	assert.Equal(t, 400, got.Images)
	assert.Positive(t, got.OK)
	assert.Less(t, got.OK, uint64(400))
	assert.True(t, got.Balanced)
	assert.Contains(t, done.stderr, "interrupted")
	assert.NotContains(t, done.stderr, "context canceled", "the interrupt is not an error")
	requireWhole(t, p.out, int(got.OK))
}

func TestARunThatIsInterruptedWhileDrawingStillReports(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := p.run(ctx, "-json")
	assert.Equal(t, show.StatusInterrupted, done.status)
	assert.Zero(t, done.report(t).OK)
	assert.Empty(t, names(t, p.out))
	assert.Empty(t, names(t, p.captchas))
}

func TestWrittenFilesAreReadableByAll(t *testing.T) {
	p := newPlace(t)
	require.Equal(t, show.StatusOK, p.run(t.Context(), "-n", "1").status)
	plain := filepath.Join(p.out, "..", "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o666)) // with the permissions that the umask leaves
	want, err := os.Stat(plain)
	require.NoError(t, err)
	got, err := os.Stat(filepath.Join(p.out, names(t, p.out)[0]))
	require.NoError(t, err)
	assert.Equal(t, want.Mode(), got.Mode())
}

func TestAPipelineThatGivesUpIsReportedWithItsReason(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.jpg": nil, "b.jpg": nil, "c.jpg": nil})
	broken := stage.New("broken", behaviour.Func[*job](func(context.Context, *job) behaviour.Outcome { panic("always") }),
		stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
	line, err := pipeline.New("images", broken, pipeline.Logger(errorLog(io.Discard)))
	require.NoError(t, err)

	var stderr bytes.Buffer
	files, err := listed(p.in, 0)
	require.NoError(t, err)
	r := &runner{config: config{in: p.in, out: p.out, workers: 1}, stdout: io.Discard, stderr: &stderr, files: files}
	done, err := r.process(t.Context(), line, broken)
	require.ErrorContains(t, err, "always")
	assert.True(t, done.end.Balanced())
	assert.Positive(t, done.end.DeadLettered)
	assert.Equal(t, show.StatusFailed, r.verdict(t.Context(), done, err))
	assert.Contains(t, stderr.String(), `"broken"`)
}

func TestAnInterruptedRunStillReportsErrors(t *testing.T) {
	var stderr bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &runner{stderr: &stderr}
	assert.Equal(t, show.StatusInterrupted, r.verdict(ctx, result{images: 3}, errors.New("no space left")))
	assert.Equal(t, "images: interrupted; 0 of 3 images were begun, and have been finished\nimages: no space left\n", stderr.String())
}

func TestARunThatDoesNotBalanceFails(t *testing.T) {
	r := &runner{stderr: io.Discard}
	done := result{end: pipeline.Snapshot{Accepted: 1}}
	assert.Equal(t, show.StatusFailed, r.verdict(t.Context(), done, nil))
}

func TestEveryPolicyWritesEveryImageAndAllTheSame(t *testing.T) {
	p := newPlace(t)
	want := p.digest(t, "-policy", "erlda", "-workers", "1")
	for _, name := range policy.Names() {
		if name == "codel" || name == "rt90" {
			continue // they drop or refuse commands in an overload
		}
		for _, crash := range []string{"0", "0.3"} {
			t.Run(name+" with crashes "+crash, func(t *testing.T) {
				assert.Equal(t, want, p.digest(t, "-policy", name, "-crash", crash))
			})
		}
	}
}

// digest runs the program with twelve captchas, all of which must be written.
func (p place) digest(t *testing.T, args ...string) string {
	t.Helper()
	require.NoError(t, os.RemoveAll(p.out))
	done := p.run(t.Context(), append(args, "-n", "12", "-json")...)
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	got := done.report(t)
	assert.EqualValues(t, 12, got.OK)
	assert.True(t, got.Balanced)
	assert.Positive(t, got.PeakLive)
	assert.LessOrEqual(t, got.PeakLive, 12)
	files, err := filepath.Glob(filepath.Join(p.out, "*"))
	require.NoError(t, err)
	require.Len(t, files, 12)
	sum, err := digest(files)
	require.NoError(t, err)
	return sum
}
