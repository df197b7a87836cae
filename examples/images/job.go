package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // a format that load accepts
	_ "image/jpeg" // another
	"io"
	"os"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/images/picture"
)

// job is the command: one image on its way through the seven stages. A
// behaviour changes it only at the very end, when nothing can fail any more, so
// that an attempt that crashes half-way leaves it unchanged.
type job struct {
	path string // where the image is read
	out  string // where it is written
	// crashIn names the stage that must crash at its first attempt; empty:
	// none.
	crashIn string
	img     *picture.Canvas // the current image; nil before load and after save
	spare   *picture.Canvas // of the same size, to work on
	alive   atomic.Bool
}

// fail answers a job with an error that names the file. The engine adds the
// stage.
func (j *job) fail(err error) behaviour.Outcome {
	return behaviour.Error(fmt.Errorf("%s: %w", j.path, err))
}

// crashOnPurpose panics if the job must crash in this stage, at its first
// attempt.
func (j *job) crashOnPurpose(ctx context.Context, stage string) {
	if j.crashIn == stage && behaviour.Attempt(ctx) == 1 {
		panic("crash on purpose, first attempt at " + j.path)
	}
}

// copied copies the image into the spare canvas, so that a filter that crashes
// half-way damages the copy only. Two canvases for all stages make less garbage
// than a new one for each filter.
func (j *job) copied() *picture.Canvas {
	if j.spare == nil {
		j.spare = picture.Clone(j.img)
		return j.spare
	}
	copy(j.spare.Pix, j.img.Pix)
	return j.spare
}

// port is the connection from one stage to the next.
type port = behaviour.Port[*job]

// load reads the file and decodes it, if it has at most that many pixels.
type load struct {
	most  int
	alive *census
	next  *port
}

// HandleCommand answers with an error if the file is not an image.
func (l load) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.crashOnPurpose(ctx, "load")
	img, err := decode(j.path, l.most)
	if err != nil {
		return j.fail(err)
	}
	j.img = img
	l.alive.enter(j)
	return behaviour.Forward(l.next, j)
}

// filtering is the behaviour of five stages: it applies a filter to a copy.
type filtering struct {
	filter picture.Filter
	next   *port
}

// HandleCommand never fails.
func (f filtering) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.crashOnPurpose(ctx, f.filter.Stage)
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

// HandleCommand answers with the name of the file that was written. If it
// cannot be written, that is final, too, and the image is released.
func (s save) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.crashOnPurpose(ctx, "save")
	outcome := s.save(j)
	j.img, j.spare = nil, nil
	s.alive.leave(j)
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

// maxPixels is how many pixels an image may have by default: a file of a few
// bytes may decode to gigabytes. It allows 32 million pixels, eight times the
// largest image of the dissertation, or 128 MiB.
const maxPixels = 32 << 20

// decode reads an image; of a GIF it reads the first one.
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

// openRegular opens a file, but no pipe or device: reading from one could take
// for ever.
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

// weight returns how many bytes of memory an image takes on its way, or 0 if
// load will refuse the file.
func weigh(path string, most int) int {
	f, err := openRegular(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := claimed(f, most)
	if err != nil {
		return 0 // load finds the same error, and reports it
	}
	return head.Width * head.Height * bytesPerPixel(head.ColorModel)
}

// bytesPerPixel returns the memory of a pixel: in the two canvases, or in one
// canvas and the decoded image if that is more.
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

// claimed reads the size of an image from its header.
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

// fromImage explains an end of file within an image.
func fromImage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("image: the file ends too early: %w", err)
	}
	return err
}

// bare removes the names of files from an error: a job's error has its own.
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
