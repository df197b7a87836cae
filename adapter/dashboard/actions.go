package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/pipeline/operate"
	"github.com/golda-dev/golda/stage/reason"
)

const (
	largestBody   = 1 << 20
	actionTimeout = 30 * time.Second // of a drain, and of a retry
	longestPolicy = 24 * time.Hour
	longestName   = 64 // of an operator
)

// request is an action that was asked for.
type request struct {
	api.Action

	op *operate.Operator
	p  *pipeline.Pipeline
}

// actions are the verbs by their names.
var actions = map[string]func(context.Context, *request) (api.Done, error){
	"pause": func(_ context.Context, r *request) (api.Done, error) {
		n, err := r.op.Pause(r.Stage)
		return api.Done{N: n, Text: quoted(r.Stage) + " is paused"}, err
	},
	"resume": func(_ context.Context, r *request) (api.Done, error) {
		n, err := r.op.Resume(r.Stage)
		return api.Done{N: n, Text: quoted(r.Stage) + " is resumed"}, err
	},
	"drain": func(ctx context.Context, r *request) (api.Done, error) {
		stages, err := r.stages()
		if err != nil {
			return api.Done{}, err
		}
		n, err := r.op.Drain(ctx, stages...)
		return api.Done{N: n, Text: r.named() + " is drained"}, err
	},
	"reopen": func(_ context.Context, r *request) (api.Done, error) {
		stages, err := r.stages()
		if err != nil {
			return api.Done{}, err
		}
		n, err := r.op.Reopen(stages...)
		return api.Done{N: n, Text: r.named() + " is open"}, err
	},
	"resize": func(_ context.Context, r *request) (api.Done, error) {
		n, err := r.op.Resize(r.Stage+r.Group, r.Fewest, r.Most)
		text := fmt.Sprintf("%s has %d to %d workers", r.named(), r.Fewest, r.Most)
		if r.Most == 0 {
			text = r.named() + " has as many workers as declared"
		}
		return api.Done{N: n, Text: text}, err
	},
	"rate": func(_ context.Context, r *request) (api.Done, error) {
		rate := controller.Rate{PerSecond: r.PerSecond, Burst: r.Burst}
		text := r.named() + " has the rate of its policy"
		if rate.PerSecond > 0 {
			rate.Burst = max(rate.Burst, 1)
			text = fmt.Sprintf("%s admits %v: feeds wait, and other submitters are refused for now", r.named(), rate)
		}
		n, err := r.op.Rate(r.Stage, rate)
		return api.Done{N: n, Text: text}, err
	},
	"capacity": func(_ context.Context, r *request) (api.Done, error) {
		n, err := r.op.Capacity(r.Stage, r.Slots)
		text := fmt.Sprintf("%s has %d slots", r.named(), r.Slots)
		if r.Slots == 0 {
			text = r.named() + " has the slots of its options"
		}
		return api.Done{N: n, Text: text}, err
	},
	"policy": func(_ context.Context, r *request) (api.Done, error) {
		p, err := policy.ByName(r.Name)
		if err != nil {
			return api.Done{}, err
		}
		d := time.Duration(r.ForNs)
		if d < 0 || d > longestPolicy {
			return api.Done{}, fmt.Errorf("forNs is %v: use at most %v, or 0 for good", d, longestPolicy)
		}
		text := "the policy is " + p.Name()
		if d > 0 {
			text += fmt.Sprintf(" for %v", d)
		}
		n, err := r.op.Policy(p, d)
		return api.Done{N: n, Text: text}, err
	},
	"race": runRace,
	"retry": func(ctx context.Context, r *request) (api.Done, error) {
		n, err := r.op.Retry(ctx, r.store(), r.ID)
		return api.Done{N: n, Count: 1, Text: fmt.Sprintf("letter %d was retried", r.ID)}, err
	},
	"retryAll": func(ctx context.Context, r *request) (api.Done, error) {
		f, err := r.filter()
		if err != nil {
			return api.Done{}, err
		}
		count, n, err := r.op.RetryAll(ctx, r.store(), f)
		return api.Done{N: n, Count: count, Text: fmt.Sprintf("%d letters were retried", count)}, err
	},
	"edit": func(ctx context.Context, r *request) (api.Done, error) {
		n, err := r.op.Edit(ctx, r.store(), r.ID, r.Command)
		return api.Done{N: n, Count: 1, Text: fmt.Sprintf("letter %d was edited and retried", r.ID)}, err
	},
	"drop": func(_ context.Context, r *request) (api.Done, error) {
		if r.ID != 0 {
			n, err := r.op.Drop(r.store(), r.ID)
			return api.Done{N: n, Count: 1, Text: fmt.Sprintf("letter %d was dropped", r.ID)}, err
		}
		f, err := r.filter()
		if err != nil {
			return api.Done{}, err
		}
		count, n, err := r.op.DropAll(r.store(), f)
		return api.Done{N: n, Count: count, Text: fmt.Sprintf("%d letters were dropped", count)}, err
	},
}

const (
	export       = "export"       // the verb that only reads
	drainProcess = "drainProcess" // the verb of a fleet
)

// verbs returns the names of the actions.
func verbs(payloads bool) []string {
	names := slices.Collect(maps.Keys(actions))
	if payloads {
		names = append(names, export)
	}
	slices.Sort(names)
	return names
}

func quoted(stage string) string { return fmt.Sprintf("stage %q", stage) }

// named returns the name of the stage, group or letter of the request.
func (r *request) named() string {
	switch {
	case r.Stage != "":
		return quoted(r.Stage)
	case r.Group != "":
		return fmt.Sprintf("group %q", r.Group)
	case r.Process != "":
		return fmt.Sprintf("process %q", r.Process)
	default:
		return "the pipeline"
	}
}

func (r *request) store() operate.Store { return operate.Store(r.Store) }

// stages returns the stages of a drain; none is the whole pipeline.
func (r *request) stages() (names []string, err error) {
	switch {
	case r.Stage != "":
		return []string{r.Stage}, nil
	case r.Group != "":
		for _, t := range link.Operate(r.p).Traits() {
			if t.Group == r.Group {
				names = append(names, t.Name)
			}
		}
		if names == nil {
			err = fmt.Errorf("group %q: %w", r.Group, pipeline.ErrNotPart)
		}
		return names, err
	case r.All:
		return nil, nil
	default:
		return nil, errors.New("name a stage or a group, or say that all are meant")
	}
}

// filter returns the letters that a request is about. It never selects all by
// omission.
func (r *request) filter() (letters.Filter, error) {
	if r.Stage == "" && r.Fingerprint == "" && !r.All {
		return letters.Filter{}, errors.New("name a stage or a fingerprint, or say that all are meant")
	}
	return letters.Filter{Stage: r.Stage, Fingerprint: r.Fingerprint, Reason: reason.Reason(r.Reason)}, nil
}

// act carries out an action.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request) {
	verb := r.PathValue("verb")
	do, of := actions[verb], d.pipeline()
	all := verbs(true)
	if m, ok := d.of.(*many); ok {
		do, all = nil, []string{drainProcess}
		if verb == drainProcess {
			do = m.drain
		}
	}
	err := d.permit(w, r)
	switch {
	case err != nil:
	case verb == export:
		w.Header().Set("Allow", http.MethodGet)
		err = &requestError{http.StatusMethodNotAllowed, "wrong method", errors.New("use GET for " + r.URL.Path)}
	case do == nil:
		err = &requestError{http.StatusNotFound, "no such action", fmt.Errorf("%q: use one of %s", verb, strings.Join(all, ", "))}
	}
	a := &request{p: of}
	if err == nil {
		err = decode(w, r, &a.Action)
	}
	if err != nil {
		fail(w, err)
		return
	}
	if of != nil {
		a.op = operate.New(of, operator(a.Who))
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(verb, &a.Action))
	defer cancel()
	done, err := do(ctx, a)
	d.options.Log.Info("an operator has asked for an action", "verb", verb, "operator", operator(a.Who), "of", a.named(), "entry", done.N, "error", err)
	if err != nil {
		fail(w, refused(err))
		return
	}
	write(w, r, done)
}

// export writes the letters of a store whole.
func (d *Dashboard) export(w http.ResponseWriter, r *http.Request) {
	err := d.permit(w, r)
	if err == nil && (!d.options.Payloads || d.pipeline() == nil) {
		err = &requestError{http.StatusForbidden, "commands are hidden", errors.New("set dashboard.Options.Payloads to export letters with their commands")}
	}
	store := r.URL.Query().Get("store")
	if err == nil && storeOf(store) == none {
		err = badRequest("store is %q: use dead, quarantine or failures", store)
	}
	if err != nil {
		fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="golda-%s-%s.ndjson"`, safe(d.of.root().Pipeline), store))
	d.options.Log.Info("an operator has exported letters", "store", store)
	_ = operate.New(d.pipeline(), "").Export(operate.Store(store), w) // the client may have gone
}

// pipeline returns the pipeline that is shown, nil if it is a recording.
func (d *Dashboard) pipeline() *pipeline.Pipeline {
	if l, ok := d.of.(*live); ok {
		return l.p
	}
	return nil
}

// permit returns an error unless a request may ask for actions: it comes from
// no page of another site, and has the token.
func (d *Dashboard) permit(w http.ResponseWriter, r *http.Request) error {
	if _, of := d.of.(*recorded); of || d.options.Token == "" {
		return &requestError{http.StatusForbidden, "read-only", errors.New("the dashboard has no token: set dashboard.Options.Token to enable actions")}
	}
	if !ownOrigin(r) {
		return &requestError{http.StatusForbidden, "another origin", errors.New("the request comes from a page of another site")}
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	is, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(d.options.Token))
	if !ok || subtle.ConstantTimeCompare(is[:], want[:]) != 1 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="golda"`)
		return &requestError{http.StatusUnauthorized, "wrong token", errors.New("send the token as: Authorization: Bearer TOKEN")}
	}
	return nil
}

// ownOrigin reports whether a request comes from the dashboard's own page, or
// from no page.
func ownOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// decode reads the body of an action.
func decode(w http.ResponseWriter, r *http.Request, a *api.Action) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &requestError{http.StatusUnsupportedMediaType, "wrong type", errors.New("send Content-Type: application/json")}
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, largestBody))
	body.DisallowUnknownFields()
	err := body.Decode(a)
	if err == nil {
		if _, err = body.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			err = errors.New("there is more after the object")
		}
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &requestError{http.StatusRequestEntityTooLarge, "the body is too large", e}
	}
	return badRequest("the body: %w", err)
}

// operator returns the name of an operator for the journal.
func operator(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
	if runes := []rune(name); len(runes) > longestName {
		name = string(runes[:longestName])
	}
	if name == "" {
		return "dashboard"
	}
	return name
}

// refused returns the error of an action with its status.
func refused(err error) error {
	status, title := http.StatusUnprocessableEntity, "the action was refused"
	is := func(some ...error) bool {
		return slices.ContainsFunc(some, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(pipeline.ErrNotPart, letters.ErrNotFound):
		status, title = http.StatusNotFound, "not found"
	case is(context.DeadlineExceeded, context.Canceled):
		status, title = http.StatusGatewayTimeout, "the action has not ended in time"
	case is(pipeline.ErrNotRunning, pipeline.ErrStopped, pipeline.ErrReopened, letters.ErrRetrying, operate.ErrFailedAgain, errRacing):
		status, title = http.StatusConflict, "the action is not possible now"
	}
	return &requestError{status, title, err}
}
