package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // a format that load takes
	_ "image/jpeg" // another
	"image/png"
	"io"
	"os"
	"sync"

	"github.com/golda-dev/golda/behaviour"
)

// job is the command: one image on its way through the seven stages. A behaviour
// changes it at the very end, when nothing can go wrong any more, so that a try that
// crashed half-way leaves it as it was.
type job struct {
	path    string  // where the image is read
	out     string  // where it is written
	crashIn string  // the stage that is to crash at its first attempt; "": none
	img     *canvas // what it looks like now; nil before load and after save
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

// port is the way from one stage to the next.
type port = behaviour.Port[*job]

// load reads the file and decodes it.
type load struct {
	next *port
}

// HandleCommand answers an error if the file is no image.
func (l load) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, "load")
	img, err := decode(j.path)
	if err != nil {
		return j.fail(err)
	}
	j.img = img
	return behaviour.Forward(l.next, j)
}

// filtering is the behaviour of five stages: it applies a filter to a copy.
type filtering struct {
	filter filter
	next   *port
}

// HandleCommand never fails.
func (f filtering) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, f.filter.stage)
	img := clone(j.img)
	f.filter.apply(img)
	j.img = img
	return behaviour.Forward(f.next, j)
}

// save encodes the image and writes the file.
type save struct {
	box *outbox
}

// HandleCommand answers the name of the file that was written.
func (s save) HandleCommand(ctx context.Context, j *job) behaviour.Outcome {
	j.strike(ctx, "save")
	var file bytes.Buffer
	if err := encoder.Encode(&file, j.img); err != nil {
		return j.fail(err)
	}
	if err := s.box.put(j.out, file.Bytes()); err != nil {
		return j.fail(fmt.Errorf("cannot write %s: %w", j.out, bare(err)))
	}
	j.img = nil
	return behaviour.OK(j.out)
}

// maxPixels bounds the size of an image: a file of a few bytes may claim to
// unfold to gigabytes. It lets 32 million pixels pass, eight times the largest image of
// the dissertation, or 128 MiB.
const maxPixels = 32 << 20

// decode reads an image, the first one if a GIF holds several.
func decode(path string) (*canvas, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := checkHeader(f); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, fromImage(err)
	}
	if img.Bounds().Empty() {
		return nil, errors.New("image: has no pixels")
	}
	return toCanvas(img), nil
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

// checkHeader looks how large an image says that it is, and goes back to the
// file's beginning.
func checkHeader(f io.ReadSeeker) error {
	head, _, err := image.DecodeConfig(f)
	if err != nil {
		return fromImage(err)
	}
	if head.Height > 0 && head.Width > maxPixels/head.Height {
		return fmt.Errorf("image: %d×%d pixels are too many, at most %d are taken", head.Width, head.Height, maxPixels)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
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

// encoder writes PNG files. Without the pool each would cost the better part of
// a megabyte.
var encoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: new(encoderPool)}

type encoderPool struct{ pool sync.Pool }

// Get may return nil: the encoder then makes a buffer.
func (p *encoderPool) Get() *png.EncoderBuffer {
	b, _ := p.pool.Get().(*png.EncoderBuffer)
	return b
}

func (p *encoderPool) Put(b *png.EncoderBuffer) { p.pool.Put(b) }
