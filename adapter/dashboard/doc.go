// Package dashboard serves a page that shows a pipeline at work, and the
// versioned JSON API below it.
//
//	d, err := dashboard.New(p, dashboard.Options{})
//	server := &http.Server{Addr: "localhost:8077", Handler: d}
//	server.RegisterOnShutdown(d.Close) // ends the streams of events
//
// # Cost
//
// As long as no page is open, a dashboard has no goroutine and reads nothing.
// While at least one is, it takes a snapshot each second and encodes it once for
// all of them; every page gets the changes. With [Options.Record] it takes
// snapshots without a page, too.
//
// # Security
//
// Every client of its server can read a dashboard, so serve it at a loopback
// address, or behind a server with accounts. It only shows, unless
// [Options.Token] enables actions. It answers requests for an address, for
// localhost and for the names in [Options.Hosts] only: a page of another site
// cannot read it under a name of its own.
//
// The routes and answers are in package api, whose openapi.yaml describes them.
package dashboard
