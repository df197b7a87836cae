package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
)

// line is a line of the log.
type line struct {
	number int // counted from 1
	text   string
}

// record is a request, as a line describes it.
type record struct {
	host, network string
	status        int
	bytes         int64
}

// byHost returns the host that made the request.
func byHost(r record) string { return r.host }

// parser returns the function that parses a line in the common or the combined
// log format, and looks up the network of the host:
//
//	192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326
//
// It panics in a share of its calls, from 0 to 1.
func parser(crash float64) func(ctx context.Context, l line) (record, error) {
	return func(_ context.Context, l line) (record, error) {
		if crash > 0 && rand.Float64() < crash {
			panic("the parser crashed, as -crash asks for")
		}
		return parseLine(l.text)
	}
}

func parseLine(text string) (record, error) {
	f := strings.Fields(text)
	if len(f) < 10 {
		return record{}, fmt.Errorf("%d fields; at least 10 are needed", len(f))
	}
	address, err := netip.ParseAddr(f[0])
	if err != nil {
		return record{}, fmt.Errorf("host %q is no address", f[0])
	}
	status, err := strconv.Atoi(f[8])
	if err != nil || status < 100 || status > 599 {
		return record{}, fmt.Errorf("status %q is not from 100 to 599", f[8])
	}
	var bytes int64
	if f[9] != "-" { // no body
		if bytes, err = strconv.ParseInt(f[9], 10, 64); err != nil || bytes < 0 {
			return record{}, fmt.Errorf("size %q is no number of bytes", f[9])
		}
	}
	return record{f[0], networkOf(address), status, bytes}, nil
}

// networks are the names of some networks, from the narrowest to the widest.
var networks = []struct {
	prefix netip.Prefix
	name   string
}{
	{netip.MustParsePrefix("10.1.0.0/16"), "office"},
	{netip.MustParsePrefix("10.2.0.0/16"), "warehouse"},
	{netip.MustParsePrefix("10.0.0.0/8"), "intranet"},
	{netip.MustParsePrefix("192.168.0.0/16"), "guests"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("::1/128"), "this machine"},
}

// networkOf returns the name of the network of an address.
func networkOf(address netip.Addr) string {
	for _, n := range networks {
		if n.prefix.Contains(address) {
			return n.name
		}
	}
	return "internet"
}
