package stage_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// record is a line of a log: a value of 80 bytes, which travels by value.
type record struct {
	host, method, path, network string
	status, size                int
}

var logLines = sync.OnceValue(func() []string {
	lines := make([]string, 1<<14)
	for i := range lines {
		host := i * i % 1999
		lines[i] = fmt.Sprintf("10.0.%d.%d - - [22/Nov/2026] GET /item/%d HTTP/1.1 %d %d", host/256, host%256, i%977, 200+i%3*100, 100+i%5000)
	}
	return lines
})

func parseLine(line string) (r record, err error) {
	f := strings.Fields(line)
	if len(f) != 9 {
		return r, fmt.Errorf("%d fields", len(f))
	}
	r.host, r.method, r.path = f[0], f[4], f[5]
	if r.status, err = strconv.Atoi(f[7]); err != nil {
		return r, err
	}
	r.size, err = strconv.Atoi(f[8])
	return r, err
}

func enrich(r record) record {
	r.network = r.host[:strings.LastIndexByte(r.host, '.')]
	return r
}

// totals are the sums of one host.
type totals struct{ lines, bytes int }

func (t *totals) HandleCommand(_ context.Context, r record) behaviour.Outcome {
	t.lines++
	t.bytes += r.size
	return behaviour.OK(nil)
}

// BenchmarkLog parses lines, enriches them, and adds them up by host, in order: with a keyed stage, and by hand with 32
// goroutines that each have the hosts of a hash.
func BenchmarkLog(b *testing.B) {
	b.Run("by=golda", func(b *testing.B) {
		b.ReportAllocs()
		parse := stage.Map("parse", func(_ context.Context, line string) (record, error) { return parseLine(line) })
		more := stage.Map("enrich", func(_ context.Context, r record) (record, error) { return enrich(r), nil })
		count := stage.Keyed("count", func(r record) string { return r.host }, func(string) *totals { return new(totals) })
		p, err := pipeline.New("log", parse.To(more), more.To(count), quiet)
		require.NoError(b, err)
		require.NoError(b, p.Start(b.Context()))
		lines := logLines()
		b.ResetTimer()
		for i := range b.N {
			if err := parse.Submit(b.Context(), lines[i%len(lines)]); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, p.Drain(context.Background()))
		b.StopTimer()
		require.Equal(b, uint64(b.N), count.Snapshot().OK)
		require.NoError(b, p.Stop(context.Background()))
	})
	b.Run("by=chan", func(b *testing.B) {
		b.ReportAllocs()
		const counters = 32
		in := make(chan string, 1024)
		parsed := make(chan record, 1024)
		var keyed [counters]chan record
		var parsers, enrichers, counting sync.WaitGroup
		seed := maphash.MakeSeed()
		for range runtime.GOMAXPROCS(0) {
			parsers.Go(func() {
				for line := range in {
					r, err := parseLine(line)
					if err != nil {
						panic(err)
					}
					parsed <- r
				}
			})
			enrichers.Go(func() {
				for r := range parsed {
					r = enrich(r)
					keyed[maphash.String(seed, r.host)%counters] <- r
				}
			})
		}
		for i := range keyed {
			keyed[i] = make(chan record, 32)
			counting.Go(func() {
				sums := map[string]*totals{}
				for r := range keyed[i] {
					t := sums[r.host]
					if t == nil {
						t = new(totals)
						sums[r.host] = t
					}
					t.lines++
					t.bytes += r.size
				}
			})
		}
		lines := logLines()
		b.ResetTimer()
		for i := range b.N {
			in <- lines[i%len(lines)]
		}
		close(in)
		parsers.Wait()
		close(parsed)
		enrichers.Wait()
		for _, c := range keyed {
			close(c)
		}
		counting.Wait()
	})
}
