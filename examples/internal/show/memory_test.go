package show

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheHighWaterMarkOfMemory(t *testing.T) {
	rows := []struct {
		name, status string
		want         uint64
		ok           bool
	}{
		{"a status of Linux, in kilobytes", "Name:\timages\nVmPeak:\t  9999 kB\nVmHWM:\t    2108 kB\nVmRSS:\t 1 kB\n", 2108 * 1024, true},
		{"a status without the line", "Name:\timages\n", 0, false},
		{"not a number", "VmHWM:\tmuch kB\n", 0, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, ok := highWater(row.status)
			assert.Equal(t, row.ok, ok)
			assert.Equal(t, row.want, got)
		})
	}
}
