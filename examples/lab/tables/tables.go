// Package tables runs the two applications of chapter 5 of the dissertation of
// Cruz (2015) and compares the figures with those of its tables 5.1, 5.2 and
// 5.3: the dissertation's, a model of its machine in virtual time, and Golda
// here. It also puts ERLDA's load on the web server.
//
// The reported figures are in reported.json, and nowhere else, with the
// configurations, the claims, and the reasons for differences.
package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/golda-dev/golda/controller/lab"
)

// Options says how much is measured. All but ERLDA are required.
type Options struct {
	Images   int           // how many; the dissertation has 5,000
	Size     string        // of the images: small, uniform or pareto
	Requests int           // of the web server; the dissertation has 2,000
	Page     time.Duration // that a dynamic page computes
	Runs     int           // of each configuration
	Budget   time.Duration // for the runs of both applications: fewer are made if they take longer; 0: no budget
	Load     time.Duration // of a run of the clients of ERLDA's script
	Seed     uint64
	ERLDA    string    // address of ERLDA's web server, if it runs; it is measured, too
	Progress io.Writer // gets a line for each run
}

// Scaled is much less than the dissertation has, and takes less than two
// minutes.
func Scaled() Options {
	return Options{Images: 250, Size: "small", Requests: 400, Page: 8 * time.Millisecond, Runs: 3, Budget: 60 * time.Second, Load: 2 * time.Second}
}

// Full has as many images and requests as the dissertation.
func Full() Options {
	return Options{Images: 5000, Size: "pareto", Requests: 2000, Page: 20 * time.Millisecond, Runs: 5, Load: 20 * time.Second}
}

// Result has the measurements, beside the reported figures.
type Result struct {
	Options Options
	Web     *lab.Report // of the web server, with plots over time

	book    book
	shorter float64                      // how many seconds of the dissertation there are in one of ours, in the web server
	figures map[string]map[string]values // by table
	runs    [2]int                       // of each configuration of the images and of the web server
	model   *modelled
	loads   []served
	machine string
	took    time.Duration
}

// Run measures everything. It needs the go command, in the repository, since it
// compiles the programs that it measures.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	begin := time.Now()
	r = &Result{Options: o}
	if r.book, err = read(); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintln(o.Progress, "compiling the programs that are measured")
	p, err := compile(ctx, "images", "webserver")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	_, _ = fmt.Fprintln(o.Progress, "simulating the dissertation's machine")
	if r.model, err = r.book.model(ctx, o.Seed); err != nil {
		return nil, fmt.Errorf("the model: %w", err)
	}
	if err := r.measure(ctx, p); err != nil {
		return nil, err
	}
	r.machine = fmt.Sprintf("%s/%s, %s, %d CPUs, GOMAXPROCS %d", runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0))
	r.took = time.Since(begin)
	return r, nil
}

// measure measures the three applications.
func (r *Result) measure(ctx context.Context, p *programs) error {
	o := r.Options
	pictures := &images{book: &r.book, programs: p, n: o.Images, size: o.Size, runs: o.Runs, budget: o.Budget / 2, seed: o.Seed, progress: o.Progress}
	first, err := pictures.measure(ctx)
	if err != nil {
		return fmt.Errorf("table 5.1: %w", err)
	}
	server := &web{book: &r.book, requests: o.Requests, page: o.Page, runs: o.Runs, budget: o.Budget / 2, seed: o.Seed, progress: o.Progress}
	if r.figures, r.Web, err = server.measure(ctx); err != nil {
		return fmt.Errorf("tables 5.2 and 5.3: %w", err)
	}
	r.figures["5.1"], r.shorter = first, server.shorter.median()
	r.runs = [2]int{len(first[cellKey(r.book.table("5.1").Reference, "time")]), server.runs}
	return r.measureLoad(ctx, p)
}

// measureLoad puts the load of ERLDA's script on the web servers.
func (r *Result) measureLoad(ctx context.Context, p *programs) error {
	e := &r.book.ERLDA
	c := clients{e.Clients, r.Options.Load, e.Path}
	addr, server, err := c.serve(ctx, p, e.Bytes)
	if err != nil {
		return fmt.Errorf("examples/webserver: %w", err)
	}
	defer stopProcess(server)
	servers := []target{{"Golda, examples/webserver", addr}}
	if r.Options.ERLDA != "" {
		servers = append(servers, target{"ERLDA", r.Options.ERLDA})
	}
	if r.loads, err = c.compare(ctx, r.Options.Runs, servers, r.Options.Progress); err != nil {
		return fmt.Errorf("the load of ERLDA: %w", err)
	}
	return nil
}

// of returns the measurements as a side.
func (r *Result) of(t *table, row *row, figure string) values {
	return r.figures[t.ID][cellKey(row.ID, figure)]
}
