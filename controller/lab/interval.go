package lab

import (
	"math"
	"slices"
)

// coverage is how often an interval must hold the median, if there are enough
// runs for it.
const coverage = 0.95

// interval returns the median of some values, and an interval of order
// statistics that holds the true median. It assumes nothing about the
// distribution but that the runs are independent. covers is how often such an
// interval holds it, at least. With fewer than six values it is the whole
// range, and covers is below [coverage].
func interval(values []float64) (median, low, high, covers float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN(), 0
	}
	k := rankOf(n)
	return middle(sorted), sorted[k-1], sorted[n-k], covered(n, k)
}

// middle returns the median. For an even number it is the mean of the two
// middle values.
func middle(sorted []float64) float64 {
	a, b := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	if a == b {
		return a // also if both are infinite
	}
	return (a + b) / 2
}

// rankOf returns the rank, from 1, of the value at which the interval of n
// values begins: the highest one with which the interval covers enough.
func rankOf(n int) int {
	k := 1
	for 2*(k+1) <= n && covered(n, k+1) >= coverage {
		k++
	}
	return k
}

// covered returns how often the median is between the k-th lowest and the k-th
// highest of n values: it is outside if fewer than k values are on one of its
// sides, and each value is on either side with the same probability.
func covered(n, k int) float64 {
	outside, chosen := 0.0, 1.0 // chosen is n over i
	for i := range k {
		outside += chosen
		chosen = chosen * float64(n-i) / float64(i+1)
	}
	return 1 - 2*outside*math.Pow(0.5, float64(n))
}

// byChance returns how often the intervals of two equal candidates, of n runs
// each, do not overlap: one of the two has all its lowest values below the
// other's.
func byChance(n int) float64 {
	k := rankOf(n)
	if k > 1 {
		return 0.01 // an upper bound
	}
	ways := 1.0 // 2n over n
	for i := range n {
		ways = ways * float64(2*n-i) / float64(i+1)
	}
	return 2 / ways
}

// jain returns Jain's index of fairness of some shares, from 1/n, if one has
// all, to 1, if all are equal. It is NaN for no shares.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if len(shares) > 0 && squares == 0 {
		return 1 // all have nothing
	}
	return sum * sum / (float64(len(shares)) * squares)
}
