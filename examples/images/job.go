package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // a format that load takes
	_ "image/jpeg" // another
	"io"
	"os"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/images/picture"
)

// job is the command: one image on its way through the seven stages. A behaviour
// changes it at the very end, when nothing can go wrong any more, so that a try that
// crashed half-way leaves it as it was.
type job struct {
	path    string          // where the image is read
	out     string          // where it is written
	crashIn string          // the stage that is to crash at its first attempt; "": none
	img     *picture.Canvas // what it looks like now; nil before load and after save
	spare   *picture.Canvas // of the same size, to work on
	alive   atomic.Bool
}

// fail answers a job with an error that names the file. The engine adds the stage.
func (j *job) fail(err error) behaviour.Outcome {
	return behaviour.Error(fmt.Errorf("%s: %w", j.path, err))
}

// strike panics if the job is to crash here and now.
func (j *job) strike(ctx context.Context, stage string) {
	if j.crashIn == stage && behaviour.Attempt(ctx) == 1 {
		panic("crash on purpose, first attempt at " + j.path)
	}
}

// copied copies the image into the spare canvas, so that a filter that crashes half-way
// spoils the copy only. Two canvases for the whole way leave less to collect than a new
// one for each filter.
func (j *job) copied() *picture.Canvas {
	if j.spare == nil {
		j.spare = picture.Clone(j.img)
		return j.spare
	}
	copy(j.spare.Pix, j.img.Pix)
	return j.spare
}

// port is the way from one stage to the next.
type port = behaviour.Port[*job]

// load reads the file and decodes it, if it has no more pixels than most.
type load struct {
	most  int
	alive *census
	next  *port
}

// HandleCommand answers an error if the file is no image.
func (l load) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, "load")
	img, err := decode(j.path, l.most)
	if err != nil {
		return j.fail(err)
	}
	j.img = img
	l.alive.born(j)
	return behaviour.Forward(l.next, j)
}

// filtering is the behaviour of five stages: it applies a filter to a copy.
type filtering struct {
	filter picture.Filter
	next   *port
}

// HandleCommand never fails.
func (f filtering) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, f.filter.Stage)
	img := j.copied()
	f.filter.Apply(img)
	j.img, j.spare = img, j.img
	return behaviour.Forward(f.next, j)
}

// save encodes the image and writes the file.
type save struct {
	box   *outbox
	alive *census
}

// HandleCommand answers the name of the file that was written. If it can't be written
// that is final, too, and the image is let go of.
func (s save) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, "save")
	outcome := s.save(j)
	j.img, j.spare = nil, nil
	s.alive.gone(j)
	return outcome
}

func (s save) save(j *job) behaviour.Outcome {
	var file bytes.Buffer
	if err := picture.Encode(&file, j.img); err != nil {
		return j.fail(err)
	}
	if err := s.box.put(j.out, file.Bytes()); err != nil {
		return j.fail(fmt.Errorf("cannot write %s: %w", j.out, bare(err)))
	}
	return behaviour.OK(j.out)
}

// maxPixels is how many pixels an image may have by default: a file of a few bytes may claim to
// unfold to gigabytes. It lets 32 million pixels pass, eight times the largest image of
// the dissertation, or 128 MiB.
const maxPixels = 32 << 20

// decode reads an image, the first one if a GIF holds several.
func decode(path string, most int) (*picture.Canvas, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := claimed(f, most); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, fromImage(err)
	}
	if img.Bounds().Empty() {
		return nil, errors.New("image: has no pixels")
	}
	return picture.From(img), nil
}

// openRegular opens a file, but no pipe or device: to read it could take for ever.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() == 0 {
		return nil, errors.New("the file is empty")
	}
	f, err := os.Open(path)
	return f, bare(err)
}

// weigh tells how many bytes of memory an image takes on its way: none if load will refuse the file.
func weigh(path string, most int) int {
	f, err := openRegular(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := claimed(f, most)
	if err != nil {
		return 0 // load finds the same, and tells it
	}
	return head.Width * head.Height * bytesPerPixel(head.ColorModel)
}

// bytesPerPixel is how much memory a pixel takes: of the canvas and the spare one, or of the canvas and what the decoder
// made, if that is more.
func bytesPerPixel(decoded color.Model) int {
	switch decoded {
	case color.RGBA64Model, color.NRGBA64Model:
		return canvas + 8
	default:
		return canvas + canvas
	}
}

// canvas is how many bytes a pixel takes in a canvas.
const canvas = 4

// claimed reads from its header how large an image says that it is.
func claimed(f io.Reader, most int) (image.Config, error) {
	head, _, err := image.DecodeConfig(f)
	if err != nil {
		return head, fromImage(err)
	}
	if head.Height > 0 && head.Width > most/head.Height {
		return head, fmt.Errorf("image: %d×%d pixels are too many, at most %d are taken; see -max-pixels", head.Width, head.Height, most)
	}
	return head, nil
}

// fromImage says what an end of file amid an image means.
func fromImage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("image: the file ends too early: %w", err)
	}
	return err
}

// bare takes the names of files out of an error: a job's error has its own.
func bare(err error) error {
	var path *os.PathError
	var link *os.LinkError // of a rename
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	default:
		return err
	}
}
