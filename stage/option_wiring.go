package stage

import "github.com/golda-dev/golda/behaviour"

// Out declares the ports that the stage's behaviour forwards to. A pipeline checks that each port is wired, and knows the
// graph by them.
func Out(ports ...behaviour.Outlet) Option {
	return func(s *settings) { s.Outs = append(s.Outs, ports...) }
}

// Use adds middleware around the stage's handlers: logging, tracing, metrics, authorisation, retries of one's own. The first
// is the outermost. Several Use options add up, and those of pipeline.Middleware are outside all of them. Batches, suspending
// handlers, Start, Stop and Version of a behaviour are as without middleware, and so they are after an upgrade.
func Use(all ...Middleware) Option {
	return func(s *settings) { s.around = append(s.around, all...) }
}
