// Package picture has the image operations of the image application: the five
// filters of LEDA (Cruz 2015, section 5.1), exact to the bit, and the
// conversions into and out of their format.
//
// The filters are plain functions of an image, independent of stages and
// commands, so that a test can compare the pipeline with a loop that calls
// them, and the benchmark suite can compare other pipelines with this one. A
// function owns its argument until it returns.
package picture

import (
	"image"
	"image/draw"
)

// Canvas is the image that passes through the pipeline: 8-bit RGBA with
// straight colours (not multiplied by alpha) whose bounds start at (0, 0). Make
// one with [From].
type Canvas = image.NRGBA

// From copies any decoded image into a canvas.
//
// Transparency: the colours count as they are stored, and grayscale drops
// alpha, as Imlib2 did. So a transparent pixel is not blended with a
// background; a GIF's transparent colour is stored as black.
func From(src image.Image) *Canvas {
	size := src.Bounds().Size()
	dst := image.NewNRGBA(image.Rectangle{Max: size})
	if straight, ok := src.(*image.NRGBA); ok {
		copyRows(dst, straight)
		return dst
	}
	if opaque, ok := src.(interface{ Opaque() bool }); ok && opaque.Opaque() {
		// Opaque pixels are the same in both formats, and package draw has fast
		// paths into image.RGBA only.
		same := &image.RGBA{Pix: dst.Pix, Stride: dst.Stride, Rect: dst.Rect}
		draw.Draw(same, same.Rect, src, src.Bounds().Min, draw.Src)
		return dst
	}
	for y := range size.Y {
		for x := range size.X {
			dst.Set(x, y, src.At(src.Bounds().Min.X+x, src.Bounds().Min.Y+y))
		}
	}
	return dst
}

func copyRows(dst, src *image.NRGBA) {
	for y := range dst.Rect.Dy() {
		from := src.PixOffset(src.Rect.Min.X, src.Rect.Min.Y+y)
		copy(dst.Pix[y*dst.Stride:(y+1)*dst.Stride], src.Pix[from:from+dst.Stride])
	}
}

// grayscale sets R, G and B to int(0.3 R + 0.59 G + 0.11 B) and alpha to 255.
//
// The sum uses whole hundredths. In floating point 0.3, 0.59 and 0.11 are a
// little off, and for some colours the sum falls just short of the exact whole
// number.
func grayscale(img *Canvas) {
	for i := 0; i+3 < len(img.Pix); i += 4 {
		p := img.Pix[i : i+4 : i+4]
		g := uint8((30*int(p[0]) + 59*int(p[1]) + 11*int(p[2])) / 100)
		p[0], p[1], p[2], p[3] = g, g, g, 255
	}
}

// threshold sets each of R, G and B to 255 if it is more than limit, else to 0.
//
// The text (section 5.1) has it the other way round: above the threshold is
// black. Then two dark pixels in a square of four are enough for the blurred
// square to stay, and thin lines of noise stay with the letters. Here it takes
// three.
func threshold(limit uint8) func(*Canvas) {
	var level [256]uint8
	for v := int(limit) + 1; v < 256; v++ {
		level[v] = 255
	}
	return func(img *Canvas) {
		for i := 0; i+3 < len(img.Pix); i += 4 {
			p := img.Pix[i : i+4 : i+4]
			p[0], p[1], p[2] = level[p[0]], level[p[1]], level[p[2]]
		}
	}
}

// invert sets R, G and B to 255 minus their value. (The original inverted alpha
// too, and so made every picture invisible.)
func invert(img *Canvas) {
	for i := 0; i+3 < len(img.Pix); i += 4 {
		p := img.Pix[i : i+4 : i+4]
		p[0], p[1], p[2] = 255-p[0], 255-p[1], 255-p[2]
	}
}

// blur averages windows of 2 by 2 pixels in place: for each column from the
// left and in it for each row from the top, the window [x, x+2) × [y, y+2), cut
// at the border, is filled with its average, per channel, before the next
// window is processed. So a window sees the results of its neighbours above and
// to the left: this is not an ordinary box filter, and the order is part of it.
func blur(img *Canvas) {
	width, height := img.Rect.Dx(), img.Rect.Dy()
	for x := range width {
		wide := x+1 < width
		for y := range height {
			blurWindow(img, y*img.Stride+4*x, wide, y+1 < height)
		}
	}
}

// blurWindow fills the window whose top left pixel is at offset i.
func blurWindow(img *Canvas, i int, wide, high bool) {
	top := img.Pix[i:]
	switch {
	case wide && high:
		blurFour(top[:8:8], img.Pix[i+img.Stride:][:8:8])
	case wide:
		blurTwo(top[:4:4], top[4:8:8])
	case high:
		blurTwo(top[:4:4], img.Pix[i+img.Stride:][:4:4])
	default: // a single pixel is its own average
	}
}

func blurFour(top, bottom []uint8) {
	for c := range 4 {
		v := uint8((int(top[c]) + int(top[c+4]) + int(bottom[c]) + int(bottom[c+4])) / 4)
		top[c], top[c+4], bottom[c], bottom[c+4] = v, v, v, v
	}
}

func blurTwo(a, b []uint8) {
	for c := range 4 {
		v := uint8((int(a[c]) + int(b[c])) / 2)
		a[c], b[c] = v, v
	}
}

// Filters returns the five filters in the order of the dissertation, each with
// the name of its stage. Several goroutines may apply them at once, each to a
// canvas of its own.
func Filters() []Filter {
	return []Filter{
		{"grayscale", grayscale},
		{"threshold220", threshold(220)},
		{"blur", blur},
		{"threshold70", threshold(70)},
		{"invert", invert},
	}
}

// Filter is one of the five filters.
type Filter struct {
	Stage string        // the name of its stage
	Apply func(*Canvas) // changes the canvas in place
}

// Clone copies a canvas, so that a filter that crashes half-way damages the
// copy only.
func Clone(img *Canvas) *Canvas {
	c := *img
	c.Pix = append([]uint8(nil), img.Pix...)
	return &c
}
