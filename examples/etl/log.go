package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	hosts = 20
	// latest is how many seconds a line may come behind lines of a later time.
	latest = 60
	// firstSecond is where the log begins, midnight in UTC.
	firstSecond = 1_793_491_200
	day         = 24 * 60 * 60
)

// hit is a line of the log.
type hit struct {
	Second int64 // of the event
	Host   string
	Bytes  int64
}

func (h hit) at() time.Time { return time.Unix(h.Second, 0) }

func (h hit) host() string { return h.Host }

// count is a number of requests, and of their bytes.
type count struct{ Requests, Bytes int64 }

func (c count) plus(h hit) count { return count{c.Requests + 1, c.Bytes + h.Bytes} }

// parse reads a line such as "2026-11-01T00:00:13Z host-07 5127".
func parse(_ context.Context, line string) (h hit, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return h, fmt.Errorf("%d fields, not 3: %q", len(fields), line)
	}
	at, err := time.Parse(time.RFC3339, fields[0])
	if err != nil {
		return h, err
	}
	bytes, err := strconv.ParseInt(fields[2], 10, 64)
	return hit{at.Unix(), fields[1], bytes}, err
}

// writeLog writes a log of a day, the same for the same number of lines, and
// returns how many bytes it has.
func writeLog(name string, lines int) (size int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(uint64(lines), 1)) //nolint:gosec // not for secrets
	for i := range lines {
		at := int64(firstSecond) + int64(i)*day/int64(lines) - random.Int64N(latest+1)
		host := min(random.IntN(hosts), random.IntN(hosts)) // some have more than others
		if _, err := fmt.Fprintf(w, "%s host-%02d %d\n", time.Unix(at, 0).UTC().Format(time.RFC3339), host, random.IntN(20_000)); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	return info.Size(), err
}
