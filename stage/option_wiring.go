package stage

import "github.com/golda-dev/golda/behaviour"

// Out declares the ports that the stage's behaviour forwards to. A pipeline checks that each port is wired, and knows the
// graph by them.
func Out(ports ...behaviour.Outlet) Option {
	return func(s *settings) { s.Outs = append(s.Outs, ports...) }
}
