package tables

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/examples/webserver/pages/chapter5"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// web measures tables 5.2 and 5.3: the ten configurations of the web server.
type web struct {
	book     *book
	requests int
	page     time.Duration // how long a dynamic page should compute
	runs     int
	budget   time.Duration // for all runs; fewer are made if they take longer; 0: no budget
	late     time.Duration // that requests may be sent; 0: a tenth of a run
	seed     uint64
	progress io.Writer

	rows, columns int     // of the additions of a page
	now           float64 // pages a second, beside the other work of the machine

	shorter values // how many seconds of the dissertation there are in one of each run

	mu      sync.Mutex
	clients map[attempt]*client
}

// attempt is a run of a configuration. If lab repeats it, the last one counts.
type attempt struct {
	policy string
	seed   uint64 // of its first request
}

// columns is as in the dissertation's script.
const columns = 10_001

// mostEach is the most workers that a stage has in a configuration.
const mostEach = 10

// scale maps the dissertation's time to ours. The load is the same multiple of
// the capacity, and the number of requests may be smaller.
type scale struct {
	capacity float64 // pages a second here
	faster   float64 // how many pages are made here in the time of one page there
	shorter  float64 // how many seconds there are one here
}

// newScale returns the scale for a number of requests if so many pages a second
// can be made.
func (b *book) newScale(capacity float64, requests int) scale {
	faster := capacity / b.Capacity
	return scale{capacity, faster, faster * float64(b.Requests) / float64(requests)}
}

// measure compares the configurations, and returns the figures of each row.
func (w *web) measure(ctx context.Context) (map[string]map[string]values, *lab.Report, error) {
	w.columns = columns
	w.rows = calibrate(w.page, w.columns)
	w.now = capacity(func() { chapter5.Added(w.rows, w.columns) }, pagesToTime*w.page)
	w.clients = map[attempt]*client{}
	candidates, err := w.candidates()
	if err != nil {
		return nil, nil, err
	}
	length := w.length()
	if w.budget > 0 {
		w.runs = min(w.runs, max(1, int(w.budget/length)/len(candidates)))
	}
	report, err := lab.Compare(ctx, lab.Experiment{
		Title:    fmt.Sprintf("Tables 5.2 and 5.3: the web server of chapter 5, %d requests, at most %d connections.", w.requests, w.most()),
		Pipeline: w.pipeline, Workload: w.load(), Candidates: candidates,
		Length: length, Warmup: warmup, Deadline: length, Late: cmp.Or(w.late, length/10), Patience: 2*length + 30*time.Second,
		Runs: w.runs, Seed: w.seed, Progress: w.progress,
	})
	if err != nil {
		return nil, nil, err
	}
	return w.figures(candidates), report, nil
}

// calibrate returns how many rows of additions take a time.
func calibrate(page time.Duration, columns int) int {
	const rows = 200
	took := fastest(25, func() { chapter5.Added(rows, columns) })
	return max(1, int(math.Round(rows*page.Seconds()/took.Seconds())))
}

// pagesToTime is for how many pages the capacity is measured.
const pagesToTime = 100

// fastest returns the shortest time of some calls.
func fastest(n int, f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range n {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best
}

// candidates returns the configurations of table 5.2.
func (w *web) candidates() (all []lab.Candidate, err error) {
	for _, r := range w.book.table("5.2").Rows {
		p, fault := r.Configuration.shared(w.book.newScale(w.now, w.requests).shorter)
		err = errors.Join(err, fault)
		all = append(all, lab.Candidate{Name: r.name(), Policies: []controller.Policy{p}})
	}
	return all, err
}

// warmup is the least that lab takes: all requests count, as in the
// dissertation.
const warmup = time.Nanosecond

// most returns at how many open connections no more are accepted.
func (w *web) most() int { return w.book.Connections * w.requests / w.book.Requests }

// load is one request after the other, at equal times.
func (w *web) load() lab.Workload {
	between := float64(time.Second) / (w.book.Rate / w.book.Capacity * w.now)
	times := make([]time.Duration, w.requests)
	for i := range times {
		times[i] = warmup + time.Duration(float64(i)*between)
	}
	return lab.Trace(times...)
}

// length returns how long a run takes, answers included, with a reserve for a
// machine that has other work to do.
func (w *web) length() time.Duration {
	load := w.book.Rate / w.book.Capacity
	served := min(float64(w.requests), float64(w.most())*load/(load-1))
	return time.Duration(1.3 * served / w.now * float64(time.Second))
}

// pipeline makes the server of a run, and the client that sends to it.
func (w *web) pipeline(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := chapter5.New(chapter5.Config{Workers: mostEach, Capacity: 2 * w.book.Requests, Rows: w.rows, Columns: w.columns})
	p, err := server.Pipeline(chapter5.Accepted(l), control, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	c := &client{addr: l.Addr().String(), most: int64(w.most())}
	return p, func(ctx context.Context, r lab.Request) error {
		if r.N == 0 {
			w.mu.Lock()
			w.clients[attempt{p.Snapshot().Policy, r.Seed}] = c
			w.mu.Unlock()
		}
		return c.send(ctx, r)
	}, nil
}

// client is the client of one run. Each request has a connection of its own.
type client struct {
	addr string
	most int64 // open connections, at which no more are opened

	begun sync.Once
	clock clock
	open  atomic.Int64
	full  atomic.Bool

	mu      sync.Mutex
	answers []answer
	used    time.Duration // CPU time until the last answer
}

// answer is when a request should have been sent and when it was answered,
// since the start of the run.
type answer struct{ sent, at time.Duration }

// send sends a request and reads the answer. Once as many connections are open
// as may be, this and all later requests are refused.
func (c *client) send(ctx context.Context, r lab.Request) error {
	c.begun.Do(func() { c.clock.start(time.Now().Add(-r.At)) })
	defer c.clock.sample()
	defer c.open.Add(-1)
	if c.open.Add(1) > c.most {
		c.full.Store(true)
	}
	if c.full.Load() {
		return fmt.Errorf("%w: %d connections were open, and the server accepts no more", stage.ErrFull, c.most)
	}
	if err := get(ctx, c.addr); err != nil {
		return err
	}
	at := c.clock.now()
	used := c.clock.cpu()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers, c.used = append(c.answers, answer{r.At, at}), max(c.used, used)
	return nil
}

// capacity returns how many requests a second all CPUs together can do, by the
// CPU time of this run. It depends on the other work of the machine, since CPUs
// share caches and clocks.
func (c *client) capacity() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(len(c.answers)) * float64(runtime.GOMAXPROCS(0)) / c.used.Seconds()
}

// get requests a page on a connection of its own.
func get(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()                         // all was read
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // reading ends then
	if _, err := io.WriteString(conn, "GET /index HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answered %s", resp.Status)
	}
	return err
}

// figures returns the figures of each row of tables 5.2 and 5.3 in the
// dissertation's units, for each run.
func (w *web) figures(candidates []lab.Candidate) map[string]map[string]values {
	all := map[string]map[string]values{"5.2": {}, "5.3": {}}
	for i, r := range w.book.table("5.2").Rows {
		for key, c := range w.clients {
			if key.policy != candidates[i].Policies[0].Name() {
				continue
			}
			s := w.book.newScale(c.capacity(), w.requests)
			w.shorter = append(w.shorter, s.shorter)
			times, rates := c.figures(s, w.book.Window)
			for f, v := range times {
				all["5.2"][cellKey(r.ID, f)] = append(all["5.2"][cellKey(r.ID, f)], v)
			}
			for f, v := range rates {
				all["5.3"][cellKey(r.ID, f)] = append(all["5.3"][cellKey(r.ID, f)], v)
			}
		}
	}
	return all
}

// cellKey names the figure of a row.
func cellKey(row, figure string) string { return row + "/" + figure }

// figures returns the figures of a run for tables 5.2 and 5.3.
func (c *client) figures(s scale, window float64) (times, rates map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var took, ends []float64
	for _, a := range c.answers {
		sent, at := c.clock.at(a.sent).Seconds()*s.shorter, c.clock.at(a.at).Seconds()*s.shorter
		took, ends = append(took, at-sent), append(ends, at)
	}
	shrunk := s.shorter / s.faster // how many requests there stand for one here
	return summary(took), summary(perWindow(ends, window, shrunk))
}

// perWindow returns how many ends there are in a second of each window, up to
// the last whole window. Each counts as so many.
func perWindow(ends []float64, window, each float64) (rates []float64) {
	if len(ends) == 0 {
		return nil
	}
	rates = make([]float64, max(1, int(slices.Max(ends)/window)))
	for _, end := range ends {
		if i := int(end / window); i < len(rates) {
			rates[i] += each / window
		}
	}
	return rates
}

// summary returns the four figures of tables 5.2 and 5.3.
func summary(v []float64) map[string]float64 {
	if len(v) == 0 {
		return nil
	}
	sum, squares := 0.0, 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return map[string]float64{"min": slices.Min(v), "max": slices.Max(v), "mean": mean, "sd": math.Sqrt(squares / float64(len(v)))}
}
