package picture

import (
	"image"
	"image/color"
	"image/draw"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// gray makes a canvas of gray pixels from rows of values.
func gray(rows ...[]uint8) *Canvas {
	img := image.NewNRGBA(image.Rect(0, 0, len(rows[0]), len(rows)))
	for y, row := range rows {
		for x, v := range row {
			img.SetNRGBA(x, y, color.NRGBA{v, v, v, 255})
		}
	}
	return img
}

func applied(f func(*Canvas), img *Canvas) *Canvas {
	f(img)
	return img
}

func TestBlurOfTinyImagesComputedByHand(t *testing.T) {
	rows := []struct {
		name     string
		in, want *Canvas
	}{
		{"one pixel stays", gray([]uint8{9}), gray([]uint8{9})},
		// (10+21)/2 = 15 for both, then (15)/1.
		{"one row", gray([]uint8{10, 21}), gray([]uint8{15, 15})},
		// (0+9)/2 = 4 for both; then the last alone.
		{"one column", gray([]uint8{0}, []uint8{9}), gray([]uint8{4}, []uint8{4})},
		// x=0: 0,100→50,50; x=1: 50,200→125,125; x=2: stays.
		{"a row of three remembers", gray([]uint8{0, 100, 200}), gray([]uint8{50, 125, 125})},
		// (0,0): (10+20+30+41)/4 = 25 everywhere; nothing moves any more.
		{"two by two", gray([]uint8{10, 20}, []uint8{30, 41}), gray([]uint8{25, 25}, []uint8{25, 25})},
		// x=0,y=0: (0+0+255+0)/4 = 63 in rows 0..1, columns 0..1.
		// x=0,y=1: (63+63+0+0)/4 = 31 in rows 1..2, columns 0..1.
		// x=0,y=2: (31+31)/2 = 31.
		// x=1,y=0: (63+0+31+0)/4 = 23 in rows 0..1, columns 1..2.
		// x=1,y=1: (23+23+31+0)/4 = 19 in rows 1..2, columns 1..2.
		// x=1,y=2: 19. x=2,y=0: (23+19)/2 = 21 in rows 0..1 of column 2.
		// x=2,y=1: (21+19)/2 = 20 in rows 1..2. x=2,y=2: 20.
		{
			"three by three, columns before rows",
			gray([]uint8{0, 0, 0}, []uint8{255, 0, 0}, []uint8{0, 0, 0}),
			gray([]uint8{63, 23, 21}, []uint8{31, 19, 20}, []uint8{31, 19, 20}),
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, applied(blur, row.in))
		})
	}
}

func TestBlurKeepsChannelsApart(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	img.SetNRGBA(0, 0, color.NRGBA{10, 0, 255, 255})
	img.SetNRGBA(1, 0, color.NRGBA{20, 3, 0, 255})
	blur(img)
	assert.Equal(t, color.NRGBA{15, 1, 127, 255}, img.NRGBAAt(0, 0))
	assert.Equal(t, color.NRGBA{15, 1, 127, 255}, img.NRGBAAt(1, 0))
}

func TestGrayscaleWeighsInWholeHundredthsAndSetsAlpha(t *testing.T) {
	rows := []struct {
		in   color.NRGBA
		want uint8
	}{
		{color.NRGBA{255, 255, 255, 255}, 255},
		{color.NRGBA{255, 0, 0, 255}, 76},
		{color.NRGBA{0, 255, 0, 255}, 150},
		{color.NRGBA{0, 0, 255, 0}, 28},
		{color.NRGBA{1, 2, 3, 77}, 1},
		{color.NRGBA{221, 221, 221, 255}, 221},
		{color.NRGBA{100, 100, 100, 255}, 100},
	}
	for _, row := range rows {
		img := image.NewNRGBA(image.Rect(0, 0, 1, 1))
		img.SetNRGBA(0, 0, row.in)
		grayscale(img)
		assert.Equal(t, color.NRGBA{row.want, row.want, row.want, 255}, img.NRGBAAt(0, 0), "of %v", row.in)
	}
}

func TestThresholdIsStrict(t *testing.T) {
	assert.Equal(t, gray([]uint8{0, 0, 0, 255, 255}), applied(threshold(220), gray([]uint8{0, 219, 220, 221, 255})))
	assert.Equal(t, gray([]uint8{0, 0, 255}), applied(threshold(70), gray([]uint8{69, 70, 71})))
	assert.Equal(t, gray([]uint8{0, 0}), applied(threshold(255), gray([]uint8{254, 255})))
}

func TestInvertLeavesAlpha(t *testing.T) {
	assert.Equal(t, gray([]uint8{255, 0, 155}), applied(invert, gray([]uint8{0, 255, 100})))
}

// The slow, obviously correct reference: the definition of the filters, step by step, on a map of pixels.

type pixels struct {
	w, h int
	at   map[image.Point][4]int
}

func toPixels(img *Canvas) pixels {
	p := pixels{img.Rect.Dx(), img.Rect.Dy(), map[image.Point][4]int{}}
	for y := range p.h {
		for x := range p.w {
			c := img.NRGBAAt(x, y)
			p.at[image.Pt(x, y)] = [4]int{int(c.R), int(c.G), int(c.B), int(c.A)}
		}
	}
	return p
}

func (p pixels) each(f func([4]int) [4]int) {
	for at, v := range p.at {
		p.at[at] = f(v)
	}
}

func (p pixels) grayscale() {
	p.each(func(v [4]int) [4]int {
		g := (30*v[0] + 59*v[1] + 11*v[2]) / 100
		return [4]int{g, g, g, 255}
	})
}

func (p pixels) threshold(limit int) {
	p.each(func(v [4]int) [4]int {
		for c := range 3 {
			if v[c] > limit {
				v[c] = 255
			} else {
				v[c] = 0
			}
		}
		return v
	})
}

func (p pixels) invert() {
	p.each(func(v [4]int) [4]int { return [4]int{255 - v[0], 255 - v[1], 255 - v[2], v[3]} })
}

func (p pixels) blur(size int) {
	for x := range p.w {
		for y := range p.h {
			p.fill(image.Rect(x, y, x+size, y+size).Intersect(image.Rect(0, 0, p.w, p.h)))
		}
	}
}

func (p pixels) fill(window image.Rectangle) {
	var mean [4]int
	for c := range 4 {
		sum := 0
		for y := window.Min.Y; y < window.Max.Y; y++ {
			for x := window.Min.X; x < window.Max.X; x++ {
				sum += p.at[image.Pt(x, y)][c]
			}
		}
		mean[c] = sum / (window.Dx() * window.Dy())
	}
	for y := window.Min.Y; y < window.Max.Y; y++ {
		for x := window.Min.X; x < window.Max.X; x++ {
			p.at[image.Pt(x, y)] = mean
		}
	}
}

func anyCanvas(t *rapid.T) *Canvas {
	w, h := rapid.IntRange(1, 17).Draw(t, "width"), rapid.IntRange(1, 17).Draw(t, "height")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "pixels"), 0))
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = uint8(r.Uint32())
	}
	return img
}

func TestFiltersAgreeWithTheReferenceOnRandomImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Byte().Draw(t, "limit")
		img := anyCanvas(t)
		pairs := []struct {
			name string
			fast func(*Canvas)
			slow func(pixels)
		}{
			{"grayscale", grayscale, pixels.grayscale},
			{"blur", blur, func(p pixels) { p.blur(2) }},
			{"threshold", threshold(limit), func(p pixels) { p.threshold(int(limit)) }},
			{"invert", invert, pixels.invert},
		}
		for _, pair := range pairs {
			fast, slow := Clone(img), toPixels(img)
			pair.fast(fast)
			pair.slow(slow)
			require.Equal(t, slow.at, toPixels(fast).at, pair.name)
		}
	})
}

func TestTheFiveFiltersInARowAgreeWithTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := anyCanvas(t)
		p := toPixels(img)
		p.grayscale()
		p.threshold(220)
		p.blur(2)
		p.threshold(70)
		p.invert()
		for _, f := range Filters() {
			f.Apply(img)
		}
		require.Equal(t, p.at, toPixels(img).at)
	})
}

func TestFromAcceptsEveryKindOfImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := anyCanvas(t)
		for i := 3; i < len(src.Pix); i += 4 {
			src.Pix[i] = 255
		}
		wide := image.Rect(-3, -2, src.Rect.Dx()+2, src.Rect.Dy()+1)
		kinds := map[string]draw.Image{
			"rgba": image.NewRGBA(wide), "nrgba": image.NewNRGBA(wide), "rgba64": image.NewRGBA64(wide),
		}
		for name, kind := range kinds {
			draw.Draw(kind, src.Rect, src, image.Point{}, draw.Src)
			part := kind.(interface {
				SubImage(image.Rectangle) image.Image
			}).SubImage(src.Rect)
			require.Equal(t, src, From(part), name)
		}
	})
}

func TestFromKeepsTheColourOfSeeThroughPixels(t *testing.T) {
	src := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	src.SetNRGBA(0, 0, color.NRGBA{200, 100, 50, 3})
	assert.Equal(t, src, From(src))

	half := image.NewNRGBA64(src.Rect)
	half.Set(0, 0, color.NRGBA{200, 100, 50, 128})
	assert.Equal(t, color.NRGBA{200, 100, 50, 128}, From(half).NRGBAAt(0, 0))
}

func BenchmarkFilters(b *testing.B) {
	src := image.NewNRGBA(image.Rect(0, 0, 256, 80))
	for _, f := range Filters() {
		b.Run(f.Stage, func(b *testing.B) {
			b.SetBytes(int64(len(src.Pix)))
			for b.Loop() {
				f.Apply(src)
			}
		})
	}
}
