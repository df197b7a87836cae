package policy

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The component of a period is that of the Fourier transform, but for a turn that is the same for all samples: ratios
// of components, and their sizes, are the same.
func TestAComponentIsThatOfTheFourierTransform(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, other climb
		n := rapid.IntRange(2, waveHistory).Draw(t, "periods") * wavePeriod
		one.n = rapid.IntRange(n, 3*wavelets).Draw(t, "samples")
		other.n = one.n
		for i := range wavelets {
			one.throughput[i] = rapid.Float64Range(0, 1000).Draw(t, "a sample")
			other.throughput[i] = rapid.Float64Range(0, 1000).Draw(t, "another sample")
		}
		period := float64(n) / float64(rapid.IntRange(1, n/2).Draw(t, "waves"))
		transform := func(c *climb) (sum complex128) {
			for i := range n {
				sum += complex(c.throughput[(c.n-n+i)%wavelets], 0) * cmplx.Exp(complex(0, -2*math.Pi*float64(i)/period))
			}
			return sum / complex(float64(n), 0)
		}
		a, b := one.component(&one.throughput, n, period), other.component(&other.throughput, n, period)
		require.InDelta(t, cmplx.Abs(transform(&one)), cmplx.Abs(a), 1e-6)
		require.InDelta(t, 0, cmplx.Abs(a*transform(&other)-b*transform(&one)), 1e-3)
	})
}
