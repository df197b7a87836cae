package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// asker asks the server for messages. One goroutine uses it, for one session.
type asker interface {
	// replies returns the subject to which the server sends messages, and the
	// ends of requests.
	replies() string
	// ask asks for as many messages as there are places, if it is time to do
	// so. It returns after which time to call it again; 0 means when something
	// has changed.
	ask() (again time.Duration, err error)
	// delivered counts a message.
	delivered(m *natsgo.Msg)
	// ended notes that a request has ended; tooLarge says that the next message
	// has more bytes than were left of it.
	ended(m *natsgo.Msg, tooLarge bool)
	// consumer returns the consumer to which the end of a request belongs.
	consumer(m *natsgo.Msg) string
	// waits reports whether there is a request of which the server says
	// regularly that it waits.
	waits() bool
}

// single asks one consumer for messages.
type single struct {
	*receiver

	inbox     string
	requested int  // messages that were asked for and have not arrived
	arrived   int  // messages since that was asked for
	large     bool // the next message is larger than a request allows
	asked     time.Time
}

func (r *receiver) single(inbox string) asker { return &single{receiver: r, inbox: inbox} }

func (s *single) replies() string { return s.inbox }

// ask asks for as many messages as there are places, but for a few seldom, and
// not while it has asked for others.
func (s *single) ask() (again time.Duration, err error) {
	free := s.most - s.requested
	if !s.part { // of a partition the server gives one at a time
		free = s.t.free() - s.requested
	}
	if free <= 0 || s.requested > s.most/2 {
		return 0, nil
	}
	if since := time.Since(s.asked); free < s.most/4 {
		if s.requested > 0 { // the server takes turns with requests: many small ones would take the messages from other processes
			return 0, nil
		}
		if since < smallPull {
			return smallPull - since, nil
		}
	}
	request := map[string]any{"batch": free, "expires": pullTime, "idle_heartbeat": beatTime}
	if s.large {
		free, request["batch"] = 1, 1
	} else {
		request["max_bytes"] = pullBytes + s.conn.nc.MaxPayload()
	}
	s.requested += free
	s.arrived, s.large = 0, false
	s.asked = time.Now()
	return 0, s.conn.pull(s.t.names.stream, s.receiver.consumer, s.inbox, request)
}

// pull asks a consumer for messages.
func (c *Conn) pull(stream, consumer, inbox string, request map[string]any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return c.nc.PublishRequest(fmt.Sprintf("%sCONSUMER.MSG.NEXT.%s.%s", jetstream.DefaultAPIPrefix, stream, consumer), inbox, body)
}

func (s *single) delivered(*natsgo.Msg) {
	s.requested--
	s.arrived++
}

func (s *single) ended(m *natsgo.Msg, tooLarge bool) {
	if tooLarge {
		s.large = s.arrived == 0
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		left = s.requested
	}
	s.requested = max(s.requested-left, 0)
}

func (s *single) consumer(*natsgo.Msg) string { return s.receiver.consumer }

func (s *single) waits() bool { return s.requested > 0 }
