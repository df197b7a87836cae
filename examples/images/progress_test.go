package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABarFitsItsColumnsAndHasNoRateAtFirst(t *testing.T) {
	for _, row := range []struct {
		n       int
		since   time.Duration
		columns int
		want    string
	}{
		{0, 0, 39, "processing images 0/5000 [            ]"},
		{1, time.Millisecond, 39, "processing images 1/5000 [            ]"},
		{0, time.Minute, 39, "processing images 0/5000 [            ]"},
		{2500, time.Second, 39, "processing images 2500/5000 2500/s     "},
		{2500, 100 * time.Second, 39, "processing images 2500/5000 25/s [==  ]"},
		{5000, 100 * time.Second, 49, "processing images 5000/5000 50/s [==============]"},
		{5000, 100 * time.Second, 20, "5000/5000 50/s      "},
		{5000, 100 * time.Second, 10, "5000/5000 "},
		{5000, 100 * time.Second, 3, "   "},
		{5000, 100 * time.Second, 0, ""},
		{5000, 100 * time.Second, -1, ""},
	} {
		got := barOf("processing images", row.n, 5000, row.since, row.columns)
		assert.Equal(t, row.want, got)
		assert.Len(t, got, max(row.columns, 0))
	}
}

// The source notices the end of an image when it is the oldest; the bar asks the pipeline.
func TestABarCountsFinishedImages(t *testing.T) {
	var out bytes.Buffer
	n := 0
	p := newProgress(&out, "images", 3, func() int { return n })
	p.width = func() int { return 40 }
	p.show(false)
	require.Empty(t, out.String(), "nothing new")
	n = 2
	p.show(false)
	require.Contains(t, out.String(), "\rimages 2/3 [")
	n = 3
	p.show(true)
	require.Contains(t, out.String(), "\rimages 3/3 [")
	require.Equal(t, byte('\n'), out.Bytes()[out.Len()-1])
}
