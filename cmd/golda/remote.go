package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// remote serves the page of this command for a dashboard that runs elsewhere:
// requests for the API go there, with the token that the page has been given.
type remote struct {
	page  http.Handler
	api   http.Handler
	ended context.Context //nolint:containedctx // it ends the streams
}

const apiRoot = "/golda/v1"

// newRemote returns the page of a dashboard at an address, and a function that
// ends its streams.
func newRemote(ctx context.Context, to string) (*remote, func(), error) {
	target, err := url.Parse(strings.TrimSuffix(to, "/"))
	if err != nil || target.Host == "" {
		return nil, nil, fmt.Errorf("-url is %q: use the address of a dashboard, such as http://shop:8077", to)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// The other dashboard knows its own origin only. A request of another
			// site's page keeps its origin, and is refused there.
			if origin, err := url.Parse(r.In.Header.Get("Origin")); err == nil && origin.Host == r.In.Host {
				r.Out.Header.Del("Origin")
			}
		},
		FlushInterval: -1, // an event is sent when it has come
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, http.StatusBadGateway, err) },
	}
	ended, end := context.WithCancel(ctx)
	return &remote{dashboard.Open(api.Recording{}), proxy, ended}, end, nil
}

// ServeHTTP answers a request.
func (m *remote) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != apiRoot && !strings.HasPrefix(r.URL.Path, apiRoot+"/") {
		m.page.ServeHTTP(w, r)
		return
	}
	if !isAddress(r.Host) { // the page of another site, whose name leads here, may not read
		refuse(w, http.StatusMisdirectedRequest, errors.New("use an address, or localhost"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(m.ended, cancel)()
	m.api.ServeHTTP(w, r.WithContext(ctx))
}

// isAddress reports whether a host is an IP address or localhost, with or
// without a port.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// refuse answers a request with a problem.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}) // the client may have gone
}
