// Package picture makes pictures and thumbnails for the tutorial: plain
// functions that know nothing of pipelines.
package picture

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
)

// Picture is a picture in memory, and the file that it is from.
type Picture struct {
	image.Image
	File string
}

// Samples makes a new directory with n pictures, 1.png, 2.png and so on.
func Samples(n int) (dir string, err error) {
	dir, err = os.MkdirTemp("", "pictures")
	if err != nil {
		return "", err
	}
	for i := range n {
		p := image.NewGray(image.Rect(0, 0, 320, 240))
		for at := range p.Pix {
			p.Pix[at] = uint8(at * (i + 1)) //nolint:gosec // the pattern wraps around
		}
		err = errors.Join(err, write(filepath.Join(dir, fmt.Sprint(i+1, ".png")), p))
	}
	return dir, err
}

// Load reads a file.
func Load(_ context.Context, file string) (Picture, error) {
	f, err := os.Open(file)
	if err != nil {
		return Picture{}, err
	}
	defer func() { _ = f.Close() }()
	pixels, err := png.Decode(f)
	if err != nil {
		return Picture{}, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return Picture{pixels, file}, nil
}

// width is that of a thumbnail.
const width = 64

// Shrink makes a thumbnail. It has a bug: it panics if the picture is narrower
// than a thumbnail.
func Shrink(_ context.Context, p Picture) (Picture, error) {
	step := p.Bounds().Dx() / width
	small := image.NewGray(image.Rect(0, 0, width, p.Bounds().Dy()/step))
	for y := range small.Rect.Dy() {
		for x := range width {
			small.Set(x, y, p.At(x*step, y*step))
		}
	}
	return Picture{small, p.File}, nil
}

// Widen returns a picture on a background that is wide enough for a thumbnail.
func Widen(p Picture) Picture {
	wide := image.NewGray(image.Rect(0, 0, max(width, p.Bounds().Dx()), p.Bounds().Dy()))
	for at := range wide.Pix {
		wide.Pix[at] = 255
	}
	return Picture{wide, p.File}
}

// Save writes a thumbnail beside its picture, as 1.png.small.
func Save(_ context.Context, p Picture) error { return write(p.File+".small", p) }

// Thumbnails counts those in a directory.
func Thumbnails(dir string) int {
	found, _ := filepath.Glob(filepath.Join(dir, "*.small")) // the pattern is right
	return len(found)
}

// AddNarrow adds a picture that Shrink cannot shrink.
func AddNarrow(dir string) error {
	return write(filepath.Join(dir, "narrow.png"), image.NewGray(image.Rect(0, 0, 16, 240)))
}

// AddBroken adds a file that is no picture.
func AddBroken(dir string) error {
	return os.WriteFile(filepath.Join(dir, "broken.png"), []byte("no picture"), 0o600)
}

// write replaces a file as a whole: a reader never sees a half of it.
func write(file string, p image.Image) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Rename(f.Name(), file)) }()
	return errors.Join(png.Encode(f, p), f.Close())
}
