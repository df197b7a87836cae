package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const printed = `Running 2s test @ http://127.0.0.1:8080/index.html
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms    0.95ms  12.77ms   87.50%
    Req/Sec    28.87k     2.49k   35.05k    70.00%
  Latency Distribution
     50%  933.00us
     75%    1.33ms
     90%    2.09ms
     99%    4.54ms
  115221 requests in 2.01s, 399.97MB read
`

func TestTheOutputOfWrkIsParsed(t *testing.T) {
	rows := []struct {
		name, lines string
		errors      int
	}{
		{"all well", "", 0},
		{"failed sockets", "  Socket errors: connect 1, read 20, write 300, timeout 4000\n", 4321},
		{"failed answers", "  Non-2xx or 3xx responses: 7\n", 7},
		{"both", "  Socket errors: connect 0, read 1, write 0, timeout 0\n  Non-2xx or 3xx responses: 7\n", 8},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m, err := parse(printed + row.lines + "Requests/sec:  57383.83\n")
			require.NoError(t, err)
			assert.Equal(t, measure{rate: 57383.83, p50: 933 * time.Microsecond, p99: 4540 * time.Microsecond, errors: row.errors}, m)
		})
	}
	_, err := parse(printed)
	require.ErrorContains(t, err, "no rate")
}

func TestTheMedianIsThatOfEachFigure(t *testing.T) {
	got := median([]measure{{1, 30, 3, 0, 9}, {3, 10, 2, 5, 7}, {2, 20, 1, 1, 8}})
	assert.Equal(t, measure{2, 20, 2, 5, 8}, got)
}
