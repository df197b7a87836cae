package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
)

// Options are the options of a dashboard. The zero Options are a dashboard that
// only shows, and hides commands.
type Options struct {
	// Token enables actions for requests that have it: see docs/dashboard.md.
	// It has at least 16 bytes.
	Token string
	// Payloads shows the commands of letters, and the keys of stages. They may
	// have personal data. The function for the key of a stage is then called for
	// commands that wait, while the page of the stage is open.
	Payloads bool
	// Tap is a tap whose Around is the pipeline.Middleware of the pipeline. With it
	// a page shows commands as they are handled: by their types, unless Payloads is
	// set.
	Tap *tap.Tap
	// Show returns the text of a command in the tap, if Payloads is set: the
	// place to leave out secrets. Nil writes commands as JSON. It is called
	// before the handler, on its goroutine.
	Show func(cmd any) string
	// Record takes snapshots from the start, and not only while a page is open,
	// so that a page shows the last ten minutes when it is opened.
	Record bool
	// Process is the name of the process; empty for the name of the host with
	// the number of the process.
	Process string
	// Hosts are the names under which the dashboard is reached, besides
	// localhost and addresses: the names in the Host header of requests,
	// without port.
	Hosts []string
	// Viewers is how many pages may be open at once; 0 means 256.
	Viewers int
	// Log gets a line for each action; nil means slog.Default.
	Log *slog.Logger
}

const (
	shortestToken  = 16
	defaultViewers = 256
)

func (o *Options) check() error {
	var faults []error
	if n := len(o.Token); n > 0 && n < shortestToken {
		faults = append(faults, fmt.Errorf("dashboard: Options.Token has %d bytes: use at least %d, random ones", n, shortestToken))
	}
	if o.Viewers < 0 {
		faults = append(faults, fmt.Errorf("dashboard: Options.Viewers is %d: use a positive number, or 0 for %d", o.Viewers, defaultViewers))
	}
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, ":/ ") {
			faults = append(faults, fmt.Errorf("dashboard: Options.Hosts has %q: use a name without port and scheme", h))
		}
	}
	return errors.Join(faults...)
}

// Dashboard is an http.Handler with the page of a pipeline and its API. Any
// number of goroutines may call its methods.
type Dashboard struct {
	options Options
	of      source
	sampler *sampler
	taps    taps
	mux     *http.ServeMux
}

// New returns the dashboard of a pipeline, which need not have started. The
// error names the options that are wrong.
func New(p *pipeline.Pipeline, o Options) (*Dashboard, error) {
	if p == nil {
		return nil, errors.New("dashboard: New: the pipeline is nil")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Process == "" {
		o.Process = processName()
	}
	d := newDashboard(&live{p: p, options: o}, o)
	if o.Record {
		d.sampler.record()
	}
	return d, nil
}

// Open returns a dashboard that shows a recording in place of a pipeline. It
// has no actions.
func Open(r api.Recording) *Dashboard {
	o := Options{Process: r.Root.Process}
	return newDashboard(&recorded{r}, o)
}

func newDashboard(of source, o Options) *Dashboard {
	if o.Viewers == 0 {
		o.Viewers = defaultViewers
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	d := &Dashboard{options: o, of: of, sampler: newSampler(of, o.Viewers), taps: newTaps(), mux: http.NewServeMux()}
	d.route()
	return d
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Close ends the streams of events, and stops taking snapshots. Give it to
// RegisterOnShutdown of an http.Server, whose Shutdown waits for streams. The
// dashboard answers other requests as before.
func (d *Dashboard) Close() {
	d.sampler.close()
	d.taps.end()
}

// security is the content security policy: scripts and styles of the page's own
// files, requests to its own server, and no frame around it. The layout of the
// graph is computed in a worker.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", security)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !d.serves(r.Host) {
		refuse(w, http.StatusMisdirectedRequest, "unknown host",
			fmt.Sprintf("the dashboard is not reached as %q: add the name to dashboard.Options.Hosts", r.Host))
		return
	}
	d.mux.ServeHTTP(w, r)
}

// serves reports whether requests may name a host. A page of another site can
// have a name of its own lead to the dashboard's address, but no address and
// not localhost.
func (d *Dashboard) serves(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(d.options.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
