package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/golda-dev/golda/source"
)

// input is the log.
type input struct {
	from io.Reader
	read atomic.Int64 // lines, so far
}

// lines calls submit with each line, until it returns an error. It is a
// [source.Source]. To read again would not help against its own errors.
func (in *input) lines(_ context.Context, submit func(line) error) error {
	scanner := bufio.NewScanner(in.from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if err := submit(line{int(in.read.Load()) + 1, scanner.Text()}); err != nil {
			return err
		}
		in.read.Add(1)
	}
	if err := scanner.Err(); err != nil {
		return source.Fatal(fmt.Errorf("line %d: %w", in.read.Load()+1, err))
	}
	return nil
}

// progress says how far the analysis is.
func (in *input) progress() string { return fmt.Sprintf("%d lines read", in.read.Load()) }

// generator is a reader of a log of random requests, the same for the same
// seed.
type generator struct {
	left, hosts int
	bad         float64 // the share of the lines that cannot be parsed, from 0 to 1
	dice        *rand.Rand
	popular     *rand.Zipf
	next        []byte // bytes that were generated and not read
	store       []byte
}

func newGenerator(lines, hosts int, bad float64, seed uint64) *generator {
	dice := rand.New(rand.NewPCG(seed, 0))
	return &generator{left: lines, hosts: hosts, bad: bad, dice: dice, popular: rand.NewZipf(dice, 1.2, 4, uint64(hosts-1))}
}

// Read reads a line, or the rest of one.
func (g *generator) Read(p []byte) (int, error) {
	if len(g.next) == 0 {
		if g.left == 0 {
			return 0, io.EOF
		}
		g.left--
		g.store = g.line(g.store[:0])
		g.next = g.store
	}
	n := copy(p, g.next)
	g.next = g.next[n:]
	return n, nil
}

var statuses = [...]int{200, 200, 200, 200, 200, 200, 206, 301, 304, 304, 403, 404, 404, 500, 503}

// line appends a line.
func (g *generator) line(b []byte) []byte {
	if g.dice.Float64() < g.bad {
		return fmt.Appendf(b, "cut off %x\n", g.dice.Uint32())
	}
	host := g.popular.Uint64() * 2654435761 // spreads the popular hosts over the networks
	b = append(b, [...]string{"10.1.", "10.2.", "10.77.", "192.168.", "203.0."}[host%5]...)
	b = strconv.AppendUint(b, host>>8%256, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, host%256, 10)
	b = append(b, ` - - [10/Oct/2000:13:55:36 -0700] "GET /page/`...)
	b = strconv.AppendInt(b, int64(g.dice.IntN(5000)), 10)
	b = append(b, ` HTTP/1.1" `...)
	b = strconv.AppendInt(b, int64(statuses[g.dice.IntN(len(statuses))]), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(g.dice.IntN(1<<15)), 10)
	return append(b, " \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n"...)
}
