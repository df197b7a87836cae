package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
)

// format is the version of the messages. Members of the same version understand
// each other whatever fields they have; one that is raised means that a field
// has another meaning.
const format = 1

// announcement is what a member says of itself, at each beat and in each
// report.
type announcement struct {
	Format  int           `json:"format"`
	ID      string        `json:"id"` // of the Join
	Name    string        `json:"name"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Started time.Time     `json:"started"`
	Every   time.Duration `json:"every_ns"`
	Left    bool          `json:"left,omitempty"`
	Answers bool          `json:"answers,omitempty"` // its dashboard answers reads
	Stages  []string      `json:"stages,omitempty"`  // that run there
	Units   []unit        `json:"units,omitempty"`
	Inlets  []inletLoad   `json:"inlets,omitempty"`
	CPUs    cpus          `json:"cpus,omitzero"`
}

// cpus is the CPUs of a process.
type cpus struct {
	Most int     `json:"most"` // threads of the process that can run at the same time; 0: it is not known how many of them are busy
	Busy float64 `json:"busy"` // of them, with handlers, on average
}

// unit is the workers of a stage, or of stages that share a pool.
type unit struct {
	Name    string   `json:"name"`
	Inlets  []string `json:"inlets,omitempty"` // whose messages come here
	Workers int      `json:"workers"`
	Most    int      `json:"most"` // workers that there may be, as far as more get more done
	Busy    float64  `json:"busy"` // workers, on average
}

// inletLoad is what a process does with the messages of an inlet.
type inletLoad struct {
	Name   string      `json:"name"`
	Stage  string      `json:"stage,omitempty"` // that it feeds here
	Counts nats.Counts `json:"counts"`
	Rate   float64     `json:"rate"` // messages a second that are done
}

// question asks for reports.
type question struct {
	Gone bool     `json:"gone,omitempty"` // which members are gone, instead of the snapshot
	To   []string `json:"to,omitempty"`   // the IDs of the members that are asked; none: all
}

// report answers a question.
type report struct {
	announcement

	Snapshot json.RawMessage `json:"snapshot,omitempty"` // a state, which is read apart: it may be of another version
	Err      string          `json:"error,omitempty"`    // why there is none
	Letters  letters         `json:"letters"`
	Gone     []departed      `json:"gone,omitempty"`
}

// letters is how many letters a process has, by store.
type letters struct {
	Dead       int `json:"dead"`
	Quarantine int `json:"quarantine"`
	Failures   int `json:"failures"`
}

// order asks one member for an action.
type order struct {
	ID   string `json:"id"` // of the member
	Verb string `json:"verb"`
	Who  string `json:"who"` // asks
}

const drain = "drain" // the verb that there is

// receipt answers an order.
type receipt struct {
	Err string `json:"error,omitempty"`
}

// departed is a member that is gone.
type departed struct {
	announcement

	Ago time.Duration `json:"ago_ns"` // since it was heard last
}

// state is the snapshot of a pipeline, with the errors of its feeds as texts,
// by the number of the feed.
type state struct {
	plain

	FeedErrors map[int]string `json:"feed_errors,omitempty"`
}

// plain is a snapshot.
type plain pipeline.Snapshot

// encodeState encodes a snapshot, which is changed.
func encodeState(s pipeline.Snapshot) ([]byte, error) {
	w := state{FeedErrors: map[int]string{}}
	for i := range s.Feeds {
		if err := s.Feeds[i].Err; err != nil {
			w.FeedErrors[i], s.Feeds[i].Err = textOf(err), nil
		}
	}
	w.plain = plain(s)
	return json.Marshal(w)
}

// decodeState decodes a snapshot.
func decodeState(data []byte) (s pipeline.Snapshot, err error) {
	var w state
	if err := json.Unmarshal(data, &w); err != nil {
		return s, err
	}
	s = pipeline.Snapshot(w.plain)
	for i, text := range w.FeedErrors {
		if i >= 0 && i < len(s.Feeds) {
			s.Feeds[i].Err = errors.New(text)
		}
	}
	return s, nil
}

// longestText is how much of an error is sent.
const longestText = 1 << 10

// textOf returns the text of an error, whose methods are code of users.
func textOf(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("%T, whose Error panicked", err)
		}
	}()
	text = err.Error()
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return text
}

// subjects are where the members of a pipeline talk.
type subjects struct{ all, news, ask, do, get string } // get lacks the ID of a process

func subjectsOf(name string) subjects {
	base := "golda.fleet." + token(name)
	return subjects{base + ".*", base + ".news", base + ".ask", base + ".do", base + ".get."}
}

// token returns a name as a token of a subject: other characters than letters,
// digits, - and _ are written as %XX.
func token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
