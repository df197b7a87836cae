// Package captcha draws the images of the image application: captchas similar
// to the captchas of the dissertation (Cruz 2015), the same for the same seed.
package captcha

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The least and the largest size of a captcha, in pixels.
const (
	SmallWidth  = 256
	SmallHeight = 80
	LargeWidth  = 2560
	LargeHeight = 1600
)

// The captchas resemble the dissertation's: a few tilted letters under coloured
// noise and some lines.
const (
	letters     = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // no 0, 1, I and O, which look alike
	jpegQuality = 90
)

// Painter draws captchas. A captcha depends only on the seed, the set of sizes
// and its number; so captchas may be drawn in any order, and by several
// painters. A painter reuses its canvas; use each painter from one goroutine.
//
// The same seed gives the same bytes with the same release of Go (image/jpeg
// changes now and then).
type Painter struct {
	font   *sfnt.Font
	glyphs sfnt.Buffer
	ink    vector.Rasterizer
	img    *image.RGBA
	file   bytes.Buffer
}

// NewPainter returns a painter. An error would mean that Go's own font does not
// parse.
func NewPainter() (*Painter, error) {
	f, err := sfnt.Parse(gobold.TTF)
	if err != nil {
		return nil, err
	}
	return &Painter{font: f, img: &image.RGBA{}}, nil
}

// JPEG draws captcha number i and returns it as a JPEG file. The bytes are
// valid until the next call.
func (p *Painter) JPEG(seed uint64, set Sizes, i int) ([]byte, error) {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	if err := p.draw(r, set.next(r)); err != nil {
		return nil, err
	}
	p.file.Reset()
	if err := jpeg.Encode(&p.file, p.img, &jpeg.Options{Quality: jpegQuality}); err != nil {
		return nil, err
	}
	return p.file.Bytes(), nil
}

func (p *Painter) draw(r *rand.Rand, size image.Point) error {
	p.blank(size)
	grain := max(1, size.Y/SmallHeight) // how large a dot is, and how thick a line
	p.noise(r, grain)
	if err := p.word(r, 4+r.IntN(3)); err != nil {
		return err
	}
	for range 2 + r.IntN(3) {
		p.line(r, grain)
	}
	return nil
}

// blank makes the canvas white, a new one only if the old one is too small.
func (p *Painter) blank(size image.Point) {
	need := 4 * size.X * size.Y
	if cap(p.img.Pix) < need {
		p.img.Pix = make([]uint8, need)
	}
	p.img.Pix, p.img.Stride, p.img.Rect = p.img.Pix[:need], 4*size.X, image.Rectangle{Max: size}
	for i := range p.img.Pix {
		p.img.Pix[i] = 255
	}
}

// noise draws a dot of a light colour on one place in five.
func (p *Painter) noise(r *rand.Rand, grain int) {
	for y := 0; y < p.img.Rect.Max.Y; y += grain {
		for x := 0; x < p.img.Rect.Max.X; x += grain {
			if bits := r.Uint32(); bits%5 == 0 {
				p.dot(x, y, grain, color.RGBA{120 + uint8(bits>>8)/2, 120 + uint8(bits>>16)/2, 120 + uint8(bits>>24)/2, 255})
			}
		}
	}
}

func (p *Painter) dot(x, y, grain int, c color.RGBA) {
	for dy := y; dy < min(y+grain, p.img.Rect.Max.Y); dy++ {
		for dx := x; dx < min(x+grain, p.img.Rect.Max.X); dx++ {
			p.img.SetRGBA(dx, dy, c)
		}
	}
}

// word writes n random letters, each in a cell of its own.
func (p *Painter) word(r *rand.Rand, n int) error {
	cell := image.Pt(p.img.Rect.Max.X/n, p.img.Rect.Max.Y)
	for i := range n {
		letter := rune(letters[r.IntN(len(letters))])
		if err := p.letter(r, letter, image.Rectangle{Max: cell}.Add(image.Pt(i*cell.X, 0))); err != nil {
			return err
		}
	}
	return nil
}

// letter writes a letter into a cell, tilted.
func (p *Painter) letter(r *rand.Rand, letter rune, cell image.Rectangle) error {
	glyph, err := p.font.GlyphIndex(&p.glyphs, letter)
	if err != nil {
		return err
	}
	height := min(cell.Dy()*3/5, cell.Dx())
	outline, err := p.font.LoadGlyph(&p.glyphs, glyph, fixed.I(height), nil)
	if err != nil {
		return err
	}
	p.ink.Reset(cell.Dx(), cell.Dy())
	p.trace(outline, tilted(r, cell, height))
	p.ink.Draw(p.img, cell, image.NewUniform(dark(r)), image.Point{})
	return nil
}

// tilted returns the mapping from the outline's points to a cell's: tilted both
// ways by up to a quarter, moved to about the middle.
func tilted(r *rand.Rand, cell image.Rectangle, height int) func(fixed.Point26_6) (x, y float32) {
	lean := func() float32 { return float32(r.IntN(51)-25) / 100 }
	shift := func(room int) float32 { return float32(r.IntN(max(1, room/5))) - float32(room/10) }
	leanX, leanY := lean(), lean()
	left := float32(cell.Dx()-height*7/10)/2 + shift(cell.Dx())
	base := float32(cell.Dy()+height*7/10)/2 + shift(cell.Dy())
	return func(p fixed.Point26_6) (float32, float32) {
		x, y := float32(p.X)/64, float32(p.Y)/64
		// The conversions keep products and sums apart: a fused instruction, on
		// machines that have one, would round differently.
		return left + (x - float32(leanX*y)), base + (y + float32(leanY*x))
	}
}

func (p *Painter) trace(outline sfnt.Segments, at func(fixed.Point26_6) (x, y float32)) {
	for _, s := range outline {
		ax, ay := at(s.Args[0])
		bx, by := at(s.Args[1])
		cx, cy := at(s.Args[2])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			p.ink.ClosePath()
			p.ink.MoveTo(ax, ay)
		case sfnt.SegmentOpLineTo:
			p.ink.LineTo(ax, ay)
		case sfnt.SegmentOpQuadTo:
			p.ink.QuadTo(ax, ay, bx, by)
		case sfnt.SegmentOpCubeTo:
			p.ink.CubeTo(ax, ay, bx, by, cx, cy)
		}
	}
	p.ink.ClosePath()
}

// line draws a line from the left border to the right one.
func (p *Painter) line(r *rand.Rand, grain int) {
	c := dark(r)
	from, to := r.IntN(p.img.Rect.Max.Y), r.IntN(p.img.Rect.Max.Y)
	for x := range p.img.Rect.Max.X {
		y := from + (to-from)*x/p.img.Rect.Max.X
		p.dot(x, y, grain, c)
	}
}

// dark returns a colour that grayscale makes less than 220.
func dark(r *rand.Rand) color.RGBA {
	return color.RGBA{uint8(r.IntN(200)), uint8(r.IntN(100)), uint8(r.IntN(200)), 255}
}

// Sizes is a set of sizes to draw captchas in.
type Sizes string

// The sets of sizes.
const (
	Small   Sizes = "small"   // all 256×80
	Uniform Sizes = "uniform" // width and height uniform between 256×80 and 2560×1600
	Pareto  Sizes = "pareto"  // most little larger than 256×80, a few up to 2560×1600
)

// All lists the sets.
var All = []Sizes{Small, Uniform, Pareto}

func (s Sizes) next(r *rand.Rand) image.Point {
	switch s {
	case Uniform:
		return image.Pt(
			SmallWidth+r.IntN(LargeWidth-SmallWidth+1),
			SmallHeight+r.IntN(LargeHeight-SmallHeight+1),
		)
	case Pareto:
		part := (bounded(r.Float64()) - 1) / (most - 1)
		return image.Pt(
			SmallWidth+int(part*(LargeWidth-SmallWidth)),
			SmallHeight+int(part*(LargeHeight-SmallHeight)),
		)
	default:
		return image.Pt(SmallWidth, SmallHeight)
	}
}

// The bounded Pareto distribution of sizes, from 1 to most.
const (
	most  = 10
	alpha = 2.5
)

// bounded returns the value of the distribution for a probability.
func bounded(q float64) float64 {
	return math.Pow(1-q*(1-math.Pow(most, -alpha)), -1/alpha)
}
