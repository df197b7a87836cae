package cookbook

import (
	"context"
	"fmt"
	"image"
	"image/draw"
	_ "image/jpeg" // what decode understands
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

type picture struct {
	image.Image
	file string
}

func decode(_ context.Context, file string) (picture, error) {
	f, err := os.Open(file)
	if err != nil {
		return picture{}, err
	}
	defer func() { _ = f.Close() }()
	pixels, _, err := image.Decode(f)
	if err != nil {
		return picture{}, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return picture{pixels, file}, nil
}

// shrink keeps one pixel of each 8 by 8.
func shrink(_ context.Context, p picture) (picture, error) {
	from := p.Bounds()
	small := image.NewRGBA(image.Rect(0, 0, (from.Dx()+7)/8, (from.Dy()+7)/8))
	for y := range small.Rect.Dy() {
		for x := range small.Rect.Dx() {
			small.Set(x, y, p.At(from.Min.X+8*x, from.Min.Y+8*y))
		}
	}
	return picture{small, p.file + ".small"}, nil
}

func encode(_ context.Context, p picture) error {
	f, err := os.Create(p.file)
	if err != nil {
		return err
	}
	if err := png.Encode(f, p); err != nil {
		return err
	}
	return f.Close()
}

func Example_makeThumbnails() {
	dir, err := os.MkdirTemp("", "pictures")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	wall := image.NewRGBA(image.Rect(0, 0, 640, 480))
	draw.Draw(wall, wall.Rect, image.NewUniform(image.White), image.Point{}, draw.Src)
	check(encode(context.Background(), picture{wall, filepath.Join(dir, "wall.png")}))
	check(os.WriteFile(filepath.Join(dir, "notes.png"), []byte("not an image"), 0o600))

	few := stage.Capacity(4) // decoded pictures are large: few may wait
	small := stage.Chain(stage.Map("decode", decode), stage.Map("shrink", shrink, few))
	thumbnail := stage.Chain(small, stage.Sink("encode", encode, few))
	check(run(thumbnail, pipeline.Feed("pictures", thumbnail, source.Files(filepath.Join(dir, "*.png"))),
		pipeline.Failures(func(l stage.DeadLetter) { fmt.Println(l.Stage, l.Err) })))

	made, err := decode(context.Background(), filepath.Join(dir, "wall.png.small"))
	check(err)
	fmt.Println(strings.TrimPrefix(made.file, dir+"/"), made.Bounds().Size())
	// Output:
	// decode notes.png: image: unknown format
	// wall.png.small (80,60)
}
