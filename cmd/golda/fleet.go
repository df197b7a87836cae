package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
)

// observed are the options of commands that watch all processes of a pipeline.
type observed struct {
	NATS     string `name:"nats" placeholder:"URL" help:"Of the servers of a fleet, with commas between."`
	Pipeline string `help:"Whose processes are watched, with -nats."`
}

const connectTimeout = 10 * time.Second

// watch returns the dashboard of a fleet, and a function that ends it.
func (o *observed) watch(s *session) (*dashboard.Dashboard, func(), error) {
	if o.Pipeline == "" {
		return nil, nil, errors.New("name the pipeline: -pipeline shop")
	}
	ctx, cancel := context.WithTimeout(s.ctx, connectTimeout)
	defer cancel()
	conn, err := nats.Connect(ctx, o.NATS)
	if err != nil {
		return nil, nil, err
	}
	end := func(f *fleet.Fleet) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if f != nil {
				_ = f.Leave(ctx) // no process waits for an observer
			}
			_ = conn.Close(ctx)
		}
	}
	f, err := fleet.Observe(ctx, conn, o.Pipeline, fleet.Options{})
	if err != nil {
		end(nil)()
		return nil, nil, err
	}
	d, err := dashboard.NewFleet(f, dashboard.Options{Token: s.common.Token})
	if err != nil {
		end(f)()
		return nil, nil, err
	}
	return d, end(f), nil
}

type uiCommand struct {
	observed

	URL    string `name:"url" help:"Of a dashboard that runs elsewhere."`
	Listen string `default:"localhost:8077" help:"Address to serve the page at."`
}

// Run serves the page of a fleet, or of a dashboard that runs elsewhere, until it
// is interrupted.
func (c *uiCommand) Run(s *session) error {
	if (c.NATS == "") == (c.URL == "") {
		return errors.New("name a dashboard, -url http://shop:8077, or the servers of a fleet, -nats URL -pipeline shop")
	}
	if c.URL != "" {
		return c.remote(s)
	}
	d, end, err := c.watch(s)
	if err != nil {
		return err
	}
	defer end()
	return serve(s, d, d.Close, c.Listen, plain(c.Pipeline))
}

// remote serves the page of a dashboard that runs elsewhere.
func (c *uiCommand) remote(s *session) error {
	page, end, err := newRemote(s.ctx, c.URL)
	if err != nil {
		return err
	}
	defer end()
	var of api.Root
	if err := s.client(c.URL).Get(s.ctx, "", &of); err != nil {
		return err
	}
	return serve(s, page, end, c.Listen, plain(of.Pipeline)+" of "+plain(of.Process))
}

// serve serves a page until it is interrupted, and then ends its streams. It
// prints the address.
func serve(s *session, page http.Handler, end func(), address, of string) error {
	listener, err := (&net.ListenConfig{}).Listen(s.ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	server.RegisterOnShutdown(end)
	fmt.Fprintf(s.out, "%s: http://%s\n", of, listener.Addr())
	stop := context.AfterFunc(s.ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// within returns a client of a dashboard in this process, and a function that
// ends it.
func within(s *session, d *dashboard.Dashboard) (url string, end func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(s.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // until it is closed
	}()
	return "http://" + listener.Addr().String(), func() {
		d.Close()
		_ = server.Close()
		<-ended
	}, nil
}

// writeFleet writes the processes and inlets as two tables.
func writeFleet(text *strings.Builder, f *api.Fleet) {
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "process\thost\tpid\tstate\tstages")
	for i := range f.Processes {
		p := &f.Processes[i]
		state := p.State
		if state != "alive" {
			state += fmt.Sprintf(" for %v", max(f.At.Sub(p.Heard), 0).Round(time.Second))
		}
		var stages []string
		for _, part := range p.Stages {
			stages = append(stages, fmt.Sprintf("%s %d/%d", plain(part.Stage), part.Busy, part.Workers))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", plain(p.Name), plain(p.Host), p.PID, state, strings.Join(stages, ", "))
	}
	_ = w.Flush()
	if len(f.Inlets) > 0 {
		fmt.Fprintln(text)
		w = tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "inlet\tlag\tin flight\toldest\tdone/s\tdead\tprocesses\twanted\tworkers\twanted\t")
		for _, i := range f.Inlets {
			fmt.Fprintf(w, "%s\t%d\t%d\t%v\t%.1f\t%d\t%d\t%d\t%d\t%d\t\n", plain(i.Name), i.Pending, i.InFlight, short(i.OldestNs), i.Rate, i.Buried,
				i.Processes, i.WantedProcesses, i.Workers, i.WantedWorkers)
		}
		_ = w.Flush()
	}
	if f.Error != "" {
		fmt.Fprintf(text, "\n%s\n", plain(f.Error))
	}
	fmt.Fprintln(text)
}
