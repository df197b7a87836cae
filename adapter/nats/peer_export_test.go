package nats

import (
	"time"

	"github.com/golda-dev/golda/coordination/transport"
)

// Tests have heartbeats that are quick, and must not take a program for dead that the machine does not run for seconds.
func init() { //nolint:gochecknoinits // also for the programs that tests start
	silences, callHeartbeat, firstStandstill = 100, 50*time.Millisecond, time.Second
}

// Cut has the transport take the next message of a node for one that comes after others that were lost.
func Cut(t transport.Transport, node string) {
	s := t.(*nodes).peers
	s.mu.Lock()
	defer s.mu.Unlock()
	if with := s.of[node]; with != nil {
		with.received--
	}
}

// Since returns when it was here what time it was at the server, given one instant by both clocks.
func Since(there, here, at time.Time) time.Time { return (&clock{there, here}).since(at) }

// Until returns when a message has expired that was published at a time of the server with so much time left, as Since does.
func Until(there, here, at time.Time, left string) (time.Time, error) {
	s, err := (&clock{there, here}).span(&delivery{at: at}, left)
	return s.Until, err
}
