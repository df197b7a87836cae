package dashboard

import (
	"net/http"
	"time"

	"github.com/golda-dev/golda/internal/link"
)

// timers is the answer of GET /golda/v1/timers: the open windows of a stage, and
// its next acts without a command, one of each kind, the soonest first.
type timers struct {
	Stage   string   `json:"stage"`
	Windows *windows `json:"windows"` // null if the stage has none
	Ticks   []tick   `json:"ticks"`
}

// windows are the open windows of a stage.
type windows struct {
	Open      int        `json:"open"`
	Commands  int        `json:"commands"`  // that the windows have; some may have left the stage already
	OldestNs  int64      `json:"oldestNs"`  // for how long the oldest one has been open
	Watermark *time.Time `json:"watermark"` // by which windows of event time close; null if there is none
	Whole     bool       `json:"whole"`     // the numbers are of all windows; of very many they are of a part
}

// tick is an act of a stage at a time.
type tick struct {
	What    string `json:"what"`
	InNs    int64  `json:"inNs"` // until then; 0 if it is due
	Process string `json:"process"`
}

// timers answers a request for the timers of a stage.
func (d *Dashboard) timers(r *http.Request) (any, error) {
	return d.of.timers(r.URL.Query().Get("stage"))
}

func (l *live) timers(stage string) (timers, error) {
	of, err := link.Operate(l.p).Timers(stage)
	if err != nil {
		return timers{}, badRequest("%w", err)
	}
	now := time.Now()
	all := timers{Stage: stage, Ticks: []tick{}}
	if w := of.Windows; w != nil {
		all.Windows = &windows{Open: w.Open, Commands: w.Commands, Whole: w.Whole}
		if !w.Oldest.IsZero() {
			all.Windows.OldestNs = int64(max(now.Sub(w.Oldest), 0))
		}
		if !w.Mark.IsZero() {
			all.Windows.Watermark = &w.Mark
		}
	}
	for _, t := range of.Ticks {
		all.Ticks = append(all.Ticks, tick{What: t.What, InNs: int64(max(t.At.Sub(now), 0))})
	}
	return all, nil
}

// timers returns none: a recording does not have them.
func (r *recorded) timers(stage string) (timers, error) {
	return timers{Stage: stage, Ticks: []tick{}}, nil
}
