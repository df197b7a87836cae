package stage

import "github.com/golda-dev/golda/behaviour"

// Out declares where the stage's behaviour forwards to: ports, which
// pipeline.Wire connects, and stages. A pipeline checks that each port is wired
// and each stage a part of it, and knows the graph by them: which stages an
// Entry leads to, what a drawing shows, and which commands go to another
// process. A handler may forward to a stage that is not declared, too, but a
// pipeline learns of that only when a command goes there.
//
//	parse := stage.New("parse", parser{next: save}, stage.Out(save))
//
// A stage can be declared by the stages that are made after it. To close a
// loop, use a port.
func Out(ports ...behaviour.Outlet) Option {
	return func(s *settings) { s.engine.Outs = append(s.engine.Outs, ports...) }
}

// Middleware adds middleware around the stage's handlers: logging, tracing,
// metrics, authorisation, retries of one's own. The first is the outermost.
// Several Middleware options add up, and the middleware of pipeline.Middleware
// is outside all of them. Batches, suspending handlers, Start, Stop and Version
// of a behaviour are as without middleware, and so they are after an upgrade.
func Middleware(all ...MiddlewareFunc) Option {
	return func(s *settings) { s.around = append(s.around, all...) }
}
