package captcha

import (
	"bytes"
	"image"
	"image/jpeg"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizesOfCaptchas(t *testing.T) {
	p, err := NewPainter()
	require.NoError(t, err)
	least, most := image.Pt(SmallWidth, SmallHeight), image.Pt(LargeWidth, LargeHeight)
	for i := range 8 {
		assert.Equal(t, least, sizeOf(t, p, Small, i))
		size := sizeOf(t, p, Uniform, i)
		assert.True(t, size.X >= least.X && size.X <= most.X && size.Y >= least.Y && size.Y <= most.Y, size)
	}
}

func sizeOf(t *testing.T, p *Painter, set Sizes, i int) image.Point {
	t.Helper()
	file, err := p.JPEG(1, set, i)
	require.NoError(t, err)
	img, err := jpeg.DecodeConfig(bytes.NewReader(file))
	require.NoError(t, err)
	return image.Pt(img.Width, img.Height)
}

func BenchmarkCaptcha(b *testing.B) {
	for _, set := range All {
		b.Run(string(set), func(b *testing.B) {
			p, err := NewPainter()
			require.NoError(b, err)
			for i := 0; b.Loop(); i++ {
				_, err := p.JPEG(1, set, i)
				require.NoError(b, err)
			}
		})
	}
}
