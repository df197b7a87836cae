package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/pipeline/tap"
)

const (
	mostTaps     = 8     // at once: each costs the handlers of its stages a predicate
	mostSeen     = 10000 // events of a tap
	longestTap   = 10 * time.Minute
	longestFor   = 256 // bytes of a text or key that is looked for
	longestError = 1 << 10
)

// taps are the taps that go on.
type taps struct {
	room chan struct{}   // has one element for each of them
	over context.Context //nolint:containedctx // it ends all of them
	end  context.CancelFunc
}

func newTaps() taps {
	t := taps{room: make(chan struct{}, mostTaps)}
	t.over, t.end = context.WithCancel(context.Background())
	return t
}

// begin reports whether one more tap may begin.
func (t *taps) begin() bool {
	if t.over.Err() != nil {
		return false
	}
	select {
	case t.room <- struct{}{}:
		return true
	default:
		return false
	}
}

// tap sends a client the commands that it asks for.
func (d *Dashboard) tap(w http.ResponseWriter, r *http.Request) {
	of, _ := d.of.(*live)
	if of == nil || of.options.Tap == nil {
		refuse(w, http.StatusConflict, "no tap", "set dashboard.Options.Tap to the tap whose Around is pipeline.Middleware of the pipeline")
		return
	}
	if !ownOrigin(r) {
		refuse(w, http.StatusForbidden, "another origin", "the request comes from a page of another site")
		return
	}
	o, err := of.wanted(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	if !d.taps.begin() {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "no tap", fmt.Sprintf("%d taps are open, or the dashboard is closed", mostTaps))
		return
	}
	defer func() { <-d.taps.room }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.taps.over, cancel)()
	watch, err := of.options.Tap.Watch(ctx, of.p, o)
	if err != nil {
		fail(w, badRequest("%w", err))
		return
	}
	defer watch.Close()
	d.options.Log.Info("a tap has begun", "stages", o.Stages, "limit", o.Limit, "for", o.For, "client", r.RemoteAddr)
	sendSeen(w, watch, func(shown uint64) string {
		select {
		case <-of.done():
			return "the pipeline has stopped"
		default:
		}
		if shown >= uint64(o.Limit) {
			return "as many as asked for were shown"
		}
		return "its time is over"
	})
}

// sendSeen sends the events of a watch until it ends. It ends with the request.
func sendSeen(w http.ResponseWriter, watch *tap.Watch, why func(shown uint64) string) {
	send, flush := stream(w)
	tick := time.NewTicker(period)
	defer tick.Stop()
	n, last := uint64(0), api.Watched{}
	if !send(message("counts", n, last)) || !flush() {
		return
	}
	for {
		select {
		case e, more := <-watch.Events():
			if !more {
				end := watchedOf(watch)
				if end.Ended == "" {
					end.Ended = why(end.Shown)
				}
				send(message("end", n, end))
				flush()
				return
			}
			n++
			if !send(message("seen", n, seenOf(&e))) {
				return
			}
			if len(watch.Events()) > 0 {
				continue
			}
		case <-tick.C:
			now := watchedOf(watch)
			if now == last {
				continue
			}
			last = now
			if !send(message("counts", n, now)) {
				return
			}
		}
		if !flush() {
			return
		}
	}
}

func watchedOf(watch *tap.Watch) api.Watched {
	c := watch.Counts()
	w := api.Watched{Asked: c.Asked, Matched: c.Matched, Dropped: c.Dropped, Shown: c.Shown}
	if err := watch.Err(); err != nil {
		w.Ended = plain.Text(err)
	}
	return w
}

func seenOf(e *tap.Event) api.Seen {
	s := api.Seen{
		At: e.At, Stage: e.Stage, Command: strings.ToValidUTF8(e.Command, "\uFFFD"), Attempt: e.Attempt, TookNs: int64(e.Took), Batch: e.Batch,
		Result: resultOf(e), Next: e.Next,
	}
	if e.Err != nil {
		s.Error = plain.Brief(plain.Text(e.Err), longestError)
	}
	return s
}

// results are the results of tries.
var results = []string{"ok", "forward", "error", "crash"}

func resultOf(e *tap.Event) string {
	switch {
	case e.Crashed:
		return "crash"
	case e.Kind == behaviour.KindForward:
		return "forward"
	case e.Kind == behaviour.KindOK:
		return "ok"
	default:
		return "error"
	}
}

// wanted returns the options of a tap that a request asks for.
func (l *live) wanted(q url.Values) (tap.Options, error) {
	o := tap.Options{Stages: q["stage"], Show: l.text, Follow: q.Get("follow") == "true"}
	var err error
	if o.Share, err = share(q.Get("share")); err != nil {
		return o, err
	}
	if o.Limit, err = limit(q.Get("limit")); err != nil {
		return o, err
	}
	if text := q.Get("for"); text != "" {
		if o.For, err = time.ParseDuration(text); err != nil || o.For <= 0 || o.For > longestTap {
			return o, badRequest("for is %q: use a duration such as 10s, of at most %v", text, longestTap)
		}
	}
	if o.After, err = l.outcome(q); err != nil {
		return o, err
	}
	if o.After != nil && o.Follow {
		return o, badRequest("follow chooses a command before its result is known: leave out port and result")
	}
	o.Where, err = l.where(q)
	return o, err
}

func share(text string) (float64, error) {
	if text == "" {
		return 1, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= 1) {
		return 0, badRequest("share is %q: use a number above 0, of at most 1", text)
	}
	return n, nil
}

func limit(text string) (int, error) {
	if text == "" {
		return tap.DefaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostSeen {
		return 0, badRequest("limit is %q: use a number from 1 to %d", text, mostSeen)
	}
	return n, nil
}

// outcome returns the predicate about results, nil if none is asked for. An
// outcome names the stage that a port leads to, and not the port.
func (l *live) outcome(q url.Values) (func(tap.Event) bool, error) {
	port, result := q.Get("port"), q.Get("result")
	if result != "" && !slices.Contains(results, result) {
		return nil, badRequest("result is %q: use one of %s", result, strings.Join(results, ", "))
	}
	if port == "" && result == "" {
		return nil, nil
	}
	leads := map[api.Flow]bool{}
	for _, e := range l.graph().Edges {
		if e.Port == port {
			leads[api.Flow{From: e.From, To: e.To}] = true
		}
	}
	return func(e tap.Event) bool {
		return (port == "" || e.Next == port || leads[api.Flow{From: e.Stage, To: e.Next}]) && (result == "" || resultOf(&e) == result)
	}, nil
}

// where returns the predicate about commands, nil if none is asked for. It sees
// no more of a command than the client is shown, so that it cannot be used to
// guess hidden payloads.
func (l *live) where(q url.Values) (func(context.Context, string, any) bool, error) {
	text, key := q.Get("text"), q.Get("key")
	switch {
	case len(text) > longestFor || len(key) > longestFor:
		return nil, badRequest("text and key may have %d bytes", longestFor)
	case key != "" && !l.options.Payloads:
		return nil, &requestError{http.StatusForbidden, "commands are hidden", errors.New("set dashboard.Options.Payloads to look for keys")}
	case text == "" && key == "":
		return nil, nil
	}
	keys := map[string]func(any) (any, bool){}
	for _, t := range link.Operate(l.p).Traits() {
		keys[t.Name] = t.KeyOf
	}
	return func(_ context.Context, stage string, cmd any) bool {
		if key != "" {
			k, keyed := any(nil), false
			if of := keys[stage]; of != nil {
				k, keyed = of(cmd)
			}
			if !keyed || plain.Text(k) != key {
				return false
			}
		}
		return text == "" || strings.Contains(l.text(cmd), text)
	}, nil
}

// text returns a command as the client is shown it.
func (l *live) text(cmd any) string {
	switch {
	case !l.options.Payloads:
		return fmt.Sprintf("%T", cmd)
	case l.options.Show != nil:
		return l.options.Show(cmd)
	}
	var x letters.Letter // writes its command safely, whatever that is
	x.Command = cmd
	letter := l.letter(x)
	if text, ok := letter.Command.(json.RawMessage); ok {
		return string(text)
	}
	return letter.Summary
}
