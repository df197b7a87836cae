package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
)

const secret = "0123456789abcdef"

// post asks for an action as a client that has the secret does, after change has changed the request.
func post(t *testing.T, server *httptest.Server, verb, body string, change func(*http.Request)) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/golda/v1/actions/"+verb, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w, err := server.Client().Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	requireSafe(t, w)
	if w.StatusCode >= 400 {
		require.Equal(t, "application/problem+json", w.Header.Get("Content-Type"))
	}
	return w.StatusCode, string(text)
}

func TestAnActionNeedsTheTokenAndTheOwnOrigin(t *testing.T) {
	p := newShop(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Token: secret})
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"no token":                    {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"an empty token":              {set("Authorization", "Bearer "), http.StatusUnauthorized},
		"a wrong token":               {set("Authorization", "Bearer 0123456789abcdeg"), http.StatusUnauthorized},
		"a part of the token":         {set("Authorization", "Bearer 0123456789abcde"), http.StatusUnauthorized},
		"more than the token":         {set("Authorization", "Bearer "+token+"0"), http.StatusUnauthorized},
		"another scheme":              {set("Authorization", "Basic "+secret), http.StatusUnauthorized},
		"another site":                {set("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another host of the site":    {set("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"another origin":              {set("Origin", "https://evil.example"), http.StatusForbidden},
		"an origin that is no URL":    {set("Origin", "null"), http.StatusForbidden},
		"an origin of another port":   {set("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
		"a form":                      {set("Content-Type", "application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType},
		"a text, which a form may be": {set("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		"another name of the server":  {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"the own page":                {set("Origin", server.URL), http.StatusOK},
		"the own page, in a browser":  {set("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		"a program":                   {nil, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(p.Journal())
			status, text := post(t, server, "pause", `{"stage":"pay"}`, tt.change)
			require.Equal(t, tt.status, status, text)
			if tt.status != http.StatusOK {
				require.Len(t, p.Journal(), before, "nothing has changed")
				return
			}
			require.Len(t, p.Journal(), before+1)
			status, _ = post(t, server, "resume", `{"stage":"pay"}`, nil)
			require.Equal(t, http.StatusOK, status)
		})
	}
}

func TestWithoutATokenNothingCanBeChanged(t *testing.T) {
	p := newShop(t)
	p.busy(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Record: true, Payloads: true})
	recording := read[api.Recording](t, server, "/recording")
	for name, of := range map[string]*httptest.Server{"a pipeline": server, "a recording": serve(t, dashboard.Open(recording))} {
		for _, verb := range []string{"pause", "drain", "retryAll", "nothing"} {
			status, text := post(t, of, verb, `{"all":true}`, nil)
			require.Equal(t, http.StatusForbidden, status, "%s: %s: %s", name, verb, text)
		}
		r, _ := get(t, of, "/golda/v1/actions/export?store=failures")
		require.Equal(t, http.StatusForbidden, r.StatusCode)
	}
}

func TestActionsAreCarriedOut(t *testing.T) {
	p := newShop(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Token: secret, Payloads: true})
	root := read[api.Root](t, server, "")
	require.False(t, root.ReadOnly)
	require.Contains(t, root.Actions, "retryAll")
	pay := func() api.Stage { return read[api.Snapshot](t, server, "/snapshot").Stages["pay"] }
	do := func(verb, body string) api.Done {
		t.Helper()
		status, text := post(t, server, verb, body, nil)
		require.Equal(t, http.StatusOK, status, text)
		var d api.Done
		require.NoError(t, json.Unmarshal([]byte(text), &d))
		return d
	}
	d := do("pause", `{"stage":"pay","who":"ann"}`)
	j := read[api.Journal](t, server, "/journal")
	require.Equal(t, j.Last, d.N)
	require.Equal(t, "operator:ann", j.Changes[len(j.Changes)-1].Who)
	require.True(t, pay().Paused)
	do("resume", `{"stage":"pay"}`)
	require.False(t, pay().Paused)
	do("resize", `{"stage":"pay","fewest":2,"most":3}`)
	require.Equal(t, 3, pay().Workers.Most)
	do("resize", `{"stage":"pay"}`)
	require.Equal(t, 4, pay().Workers.Most)
	do("capacity", `{"stage":"pay","slots":9}`)
	require.Equal(t, 9, pay().Queue.Capacity)
	do("rate", `{"stage":"pay","perSecond":1000,"burst":10}`)
	do("rate", `{"stage":"pay","perSecond":0,"burst":10}`) // the page always sends a burst
	do("rate", `{}`)
	do("policy", `{"name":"erlda","forNs":60000000000}`)
	require.Equal(t, "erlda", read[api.Snapshot](t, server, "/snapshot").Policy)
	do("drain", `{"stage":"pay"}`)
	require.True(t, pay().Draining)
	do("reopen", `{"stage":"pay"}`)
	do("drain", `{"all":true}`)
	do("reopen", `{"all":true}`)
	require.False(t, pay().Draining)

	p.busy(t)
	letters := read[api.Letters](t, server, "/letters?store=failures").Letters
	require.Len(t, letters, 1)
	do("edit", `{"store":"failures","id":1,"command":{"Item":"good","Secret":""}}`)
	do("retry", `{"store":"quarantine","id":1}`)
	require.Eventually(t, func() bool { return read[api.Letters](t, server, "/letters?store=quarantine").Last == 2 }, time.Minute, time.Millisecond)
	r := authorized(t, server, "/golda/v1/actions/export?store=quarantine")
	require.Contains(t, r, `"secret crash"`)
	d = do("drop", `{"store":"quarantine","stage":"pay"}`)
	require.Equal(t, 1, d.Count)
	require.Zero(t, p.Quarantine().Len()+p.Failures().Len())
}

// authorized gets a path with the secret.
func authorized(t *testing.T, server *httptest.Server, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+secret)
	w, err := server.Client().Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.StatusCode, string(text))
	return string(text)
}

func TestAnActionThatIsWrongIsAProblem(t *testing.T) {
	p := newShop(t, pipeline.DrainTimeout(time.Second))
	p.busy(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Token: secret})
	before := len(p.Journal())
	for name, tt := range map[string]struct {
		verb, body string
		status     int
		text       string
	}{
		"a verb that is not there":   {"explode", `{}`, 404, "use one of"},
		"a stage that is not there":  {"pause", `{"stage":"` + "<script>" + `"}`, 404, "not part of this pipeline"},
		"a group that is not there":  {"drain", `{"group":"g"}`, 404, "not part of this pipeline"},
		"a store that is not there":  {"retry", `{"store":"s","id":1}`, 422, "use dead, quarantine or failures"},
		"a letter that is not there": {"retry", `{"store":"dead","id":99}`, 404, "letter 99"},
		"a policy that is not there": {"policy", `{"name":"best"}`, 422, "best"},
		"a policy for too long":      {"policy", `{"name":"erlda","forNs":-1}`, 422, "forNs"},
		"a race that is too long":    {"race", `{"forNs":-1}`, 422, "forNs is -1ns"},
		"a race against nothing":     {"race", `{"name":"best"}`, 422, "best"},
		"a race without a load":      {"race", `{"forNs":1000000000}`, 422, "got 0 commands in 1"},
		"a drain of nothing":         {"drain", `{}`, 422, "name a stage"},
		"a drop of nothing":          {"drop", `{"store":"failures"}`, 422, "name a stage"},
		"bounds that are impossible": {"resize", `{"stage":"pay","fewest":3,"most":2}`, 422, "resize to 3 to 2"},
		"no JSON":                    {"pause", `stage=pay`, 400, "invalid character"},
		"a member that is not there": {"pause", `{"stag":"pay"}`, 400, "unknown field"},
		"two objects":                {"pause", `{"stage":"pay"}{"stage":"pay"}`, 400, "more after the object"},
		"a body that is too large":   {"pause", `{"stage":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "too large"},
		"a command of another type":  {"edit", `{"store":"failures","id":1,"command":{"Itme":""}}`, 422, "unknown field"},
		"an export that writes":      {"export", `{}`, 405, "use GET"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := post(t, server, tt.verb, tt.body, nil)
			require.Equal(t, tt.status, status, text)
			require.Contains(t, text, tt.text)
			require.NotContains(t, text, "<script>")
		})
	}
	require.Len(t, p.Journal(), before, "nothing has changed")
	r, _ := get(t, server, "/golda/v1/actions/pause")
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)

	status, text := post(t, server, "retryAll", `{"store":"failures","stage":"pay"}`, nil)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text, "failed again")
}
