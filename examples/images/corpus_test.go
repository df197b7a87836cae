package main

import (
	"bytes"
	"context"
	"image"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/images/captcha"
	"github.com/golda-dev/golda/examples/images/picture"
)

func TestTheSameSeedDrawsTheSameBytes(t *testing.T) {
	for _, set := range captcha.All {
		t.Run(string(set), func(t *testing.T) {
			one := corpus{t.TempDir(), 6, set, 5}
			two := corpus{t.TempDir(), 3, set, 5}
			other := corpus{t.TempDir(), 1, set, 6}
			for _, c := range []corpus{one, two, other} {
				require.NoError(t, c.draw(t.Context(), &outbox{}, new(atomic.Int64)))
			}
			for _, name := range two.names() {
				assert.True(t, bytes.Equal(read(t, one, name), read(t, two, name)), name)
			}
			assert.NotEqual(t, read(t, one, one.name(1)), read(t, one, one.name(2)))
			assert.NotEqual(t, read(t, one, one.name(1)), read(t, other, other.name(1)))
			assert.ElementsMatch(t, one.names(), names(t, one.dir))
		})
	}
}

func read(t *testing.T, c corpus, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(t, err)
	return data
}

// A captcha of which nothing or everything is left would prove little about the filters.
func TestThePipelineLeavesTheLettersOfACaptcha(t *testing.T) {
	for i := range 10 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			img, _, err := image.Decode(bytes.NewReader(drawn(t, i)))
			require.NoError(t, err)
			c := picture.From(img)
			for _, f := range picture.Filters() {
				f.Apply(c)
			}
			white := 0
			for p := 0; p < len(c.Pix); p += 4 {
				white += int(c.Pix[p]) / 255
			}
			assert.InDelta(t, 0.1, float64(white)/(captcha.SmallWidth*captcha.SmallHeight), 0.08)
		})
	}
}

func TestDrawingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := corpus{t.TempDir(), 1000, captcha.Small, 1}
	require.ErrorIs(t, c.draw(ctx, &outbox{}, new(atomic.Int64)), context.Canceled)
	assert.Empty(t, names(t, c.dir))
}
