package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

var update = flag.Bool("update", false, "write docs/dashboard.png anew")

const (
	giveUp = time.Minute // before a test fails: its machine may be slow
	token  = "a token for tests only"
)

// parcel is a command of the pipeline that browsers look at.
type parcel struct {
	N     int
	Again bool
}

// works is a pipeline with a bottleneck, a loop, a group, crashes, errors, and a
// stage whose name is hostile. Its load can be held.
type works struct {
	*pipeline.Pipeline

	taps *tap.Tap

	mu   sync.Mutex // guards held, and is locked while a parcel is submitted
	held bool
}

func newWorks(t *testing.T, strangeName string) *works {
	t.Helper()
	w := &works{taps: tap.New()}
	weighed, labelled := behaviour.NewPort[parcel]("weighed"), behaviour.NewPort[parcel]("labelled")
	again, odd, sent := behaviour.NewPort[parcel]("again"), behaviour.NewPort[parcel]("odd"), behaviour.NewPort[parcel]("sent")
	receive := stage.Func("receive", func(_ context.Context, p parcel) behaviour.Outcome {
		return behaviour.Forward(weighed, p)
	}, stage.Out(weighed))
	weigh := stage.Func("weigh", func(_ context.Context, p parcel) behaviour.Outcome {
		time.Sleep(10 * time.Millisecond)
		return behaviour.Forward(labelled, p)
	}, stage.Workers(1, 3), stage.Capacity(64), stage.Out(labelled))
	label := stage.Func("label", func(_ context.Context, p parcel) behaviour.Outcome {
		switch {
		case p.N%41 == 0:
			panic("parcel without an address: " + hostile)
		case p.N%29 == 0:
			return behaviour.Error(errors.New("no such street: " + hostile))
		case p.N%10 == 0 && !p.Again:
			return behaviour.Forward(again, parcel{p.N, true})
		case p.N%7 == 0:
			return behaviour.Forward(odd, p)
		}
		return behaviour.Forward(sent, p)
	}, stage.Out(again, odd, sent))
	pack := stage.Map("pack", func(_ context.Context, p parcel) (parcel, error) { return p, nil })
	ship := stage.Sink("ship", func(context.Context, parcel) error { return nil })
	strange := stage.Sink(strangeName, func(context.Context, parcel) error { return nil })
	p, err := pipeline.New("works", receive, weigh, label, strange, pack.To(ship), pipeline.Group("out", 1, 2, pack, ship),
		pipeline.Wire(weighed, weigh), pipeline.Wire(labelled, label), pipeline.Wire(again, receive), pipeline.Wire(odd, strange),
		pipeline.Wire(sent, pack), pipeline.Feed("parcels", receive, w.load), pipeline.Middleware(w.taps.Around),
		pipeline.Logger(discard()))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	w.Pipeline = p
	return w
}

// load submits more parcels than the pipeline can weigh, unless it is held.
func (w *works) load(ctx context.Context, submit func(parcel) error) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		did, err := w.submit(submit, n)
		if err != nil {
			return err
		}
		n += did
	}
}

// submit submits a parcel unless the load is held, and returns how many it was.
func (w *works) submit(submit func(parcel) error, n int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		return 0, nil
	}
	return 1, submit(parcel{N: n})
}

func (w *works) setHeld(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
}

// hold has the load stop, and waits until no command is in flight.
func (w *works) hold(t *testing.T) {
	t.Helper()
	w.setHeld(true)
	require.Eventually(t, func() bool { return w.Snapshot().InFlight == 0 }, giveUp, 10*time.Millisecond)
}

// tab is a page in a browser.
type tab struct {
	*testing.T

	ctx    context.Context //nolint:containedctx // chromedp keeps the tab in it
	server *httptest.Server
	shots  string // the directory of screenshots
}

// open starts a browser with the page of a dashboard. What the page writes to
// the console fails the test: exceptions, and violations of its policy.
func open(t *testing.T, path string, server *httptest.Server) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), //nolint:usetesting // it must outlive the test's
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx) //nolint:govet // Cancel, below, ends it and waits
	console := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range console {
			if err != nil {
				return
			}
			if !strings.Contains(m.Text, "status of 401") && !strings.Contains(m.Text, "status of 409") { // actions that are refused
				t.Errorf("the console has: %s", m)
			}
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, chromedp.Cancel(ctx))
		<-read
	})
	b := &tab{T: t, ctx: ctx, server: server, shots: t.ArtifactDir()}
	b.size(1280, 800)
	b.do(chromedp.Navigate(server.URL + "/"))
	return b
}

// chromium returns the path of the browser, and skips the test if there is none.
func chromium(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes long to start")
	}
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("GOLDA_BROWSER") == "required" {
		t.Fatal("there is no chromium, and GOLDA_BROWSER is required: apt-get install chromium")
	}
	if err != nil {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	return path
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, giveUp)
	defer cancel()
	require.NoError(b, chromedp.Do(ctx, steps...))
}

// eval evaluates an expression in the page. A promise is awaited.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, giveUp)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b, err, expression)
	return v
}

// until waits until an expression is true. The page's policy forbids what
// chromedp.Poll does.
func (b *tab) until(expression string) {
	b.Helper()
	require.Eventually(b, func() bool { return eval[bool](b, "!!("+expression+")") }, giveUp, 50*time.Millisecond, expression)
}

func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// colours makes the system prefer dark or light.
func (b *tab) colours(theme string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(b, err)
}

// show leads to a page, and waits until it is there.
func (b *tab) show(address string) {
	b.Helper()
	eval[any](b, "void (location.hash = "+strconv.Quote(address)+")")
	title, _, _ := strings.Cut(strings.TrimPrefix(address, "#/"), "?")
	b.until("document.querySelector('nav [aria-current=page]')?.textContent.toLowerCase() === " + strconv.Quote(title) +
		" && document.querySelector('main h1')")
}

// shot writes a picture of the page to the test's output.
func (b *tab) shot(name string) []byte {
	b.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(b.shots, name+".png"), picture, 0o600))
	return picture
}

// text returns the text of the first element that a selector finds.
func (b *tab) text(selector string) string {
	b.Helper()
	return eval[string](b, "document.querySelector("+strconv.Quote(selector)+")?.textContent ?? 'nothing is "+selector+"'")
}

// click clicks the button with a text.
func (b *tab) click(button string) {
	b.Helper()
	find := "[...document.querySelectorAll('button')].find((x) => x.textContent.includes(" + strconv.Quote(button) + "))"
	b.until(find)
	eval[any](b, "void "+find+".click()")
}

var pages = []string{"#/graph", "#/table", "#/failures", "#/stage?name=weigh", "#/decisions", "#/processes", "#/tree", "#/tap", "#/policies"}

func nameOf(page string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(page, "#/"), "?")
	return name
}

// watched is a pipeline and its page, when the page knows the bottleneck.
func watched(t *testing.T, strangeName string) (*works, *tab) {
	t.Helper()
	path := chromium(t)
	w := newWorks(t, strangeName)
	b := open(t, path, newDashboard(t, w.Pipeline, dashboard.Options{Record: true, Token: token, Tap: w.taps}))
	b.until("document.querySelector('#verdict')?.textContent.includes('weigh')")
	return w, b
}

// The picture of the README is drawn anew with the flag -update.
func TestThePictureOfThePage(t *testing.T) {
	if !*update {
		t.Skip("the flag -update is not set")
	}
	w, b := watched(t, "ask")
	b.size(1280, 560)
	require.Eventually(t, func() bool { return w.Failures().Len() > 20 }, giveUp, 10*time.Millisecond)
	b.until("document.querySelector('.stage.failing')")
	require.NoError(t, os.WriteFile("../../docs/dashboard.png", b.shot("dashboard"), 0o644)) //nolint:gosec // a page of the project
}

// All tests of the page have one browser and one pipeline, since a browser takes
// long to start.
func TestThePageInABrowser(t *testing.T) {
	w, b := watched(t, hostile)
	require.Eventually(t, func() bool {
		return w.Failures().Len() > 0 && w.Quarantine().Len() > 0 && len(w.Journal()) > 0
	}, giveUp, 10*time.Millisecond)
	for _, c := range []struct {
		name string
		test func(t *testing.T, w *works, b *tab)
	}{
		{"each page is drawn in both themes and on a phone", drawn},
		{"hostile text is text", hostileText},
		{"the keyboard alone is enough", keyboard},
		{"the title and the icon say that commands fail", title},
		{"two hundred stages can be read", twoHundredStages},
		{"the numbers are those of the snapshot", numbers},
		{"the slider shows an earlier time, and a file a recording", slider},
		{"a tap shows commands until its viewer leaves", tapping},
		{"the processes of a fleet are shown, and one is drained", processes},
		{"keys that are parked are shown where there are some", keys},
		{"open windows and timers are shown where there are some", openWindows},
		{"actions ask for the token, and are in the journal", actions},
		{"the other buttons do what they say", buttons},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := *b
			in.T = t
			w.setHeld(false)
			c.test(t, w, &in)
		})
	}
}

func drawn(t *testing.T, _ *works, b *tab) {
	axe := axeSource(t)
	for _, theme := range []string{"light", "dark"} {
		b.colours(theme)
		for _, page := range pages {
			b.show(page)
			if page == "#/failures" {
				b.until("document.querySelector('details')")
				eval[any](b, "void (document.querySelector('details').open = true)")
			}
			b.shot(nameOf(page) + "-" + theme)
			violations(b, axe, nameOf(page)+", "+theme)
		}
	}
	b.size(390, 844)
	for _, page := range pages {
		b.show(page)
		b.shot(nameOf(page) + "-phone")
		assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390, "%s is wider than the window", page)
	}
	b.size(1280, 800)
	b.click("?")
	b.until("document.querySelector('dialog[open]')")
	b.shot("help")
	violations(b, axe, "help")
	b.click("Close")
	b.until("!document.querySelector('dialog')")
}

// axeSource returns axe-core, which make web-check installs.
func axeSource(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("web/node_modules/axe-core/axe.min.js")
	if _, npm := exec.LookPath("npm"); err != nil && npm == nil && os.Getenv("GOLDA_BROWSER") == "required" {
		t.Fatal("there is no axe-core, and GOLDA_BROWSER is required: make web-check")
	}
	if err != nil {
		t.Log("there is no axe-core: make web-check")
	}
	return string(text)
}

// violations has axe look at the page.
func violations(b *tab, axe, page string) {
	b.Helper()
	if axe == "" {
		return
	}
	if !eval[bool](b, "'axe' in window") {
		eval[any](b, "void (() => {"+axe+"})()")
	}
	found := eval[[]string](b, `axe.run(document, { resultTypes: ['violations'] }).then((r) =>
		r.violations.flatMap((v) => v.nodes.map((n) => v.id + ' ' + n.target + ': ' + n.failureSummary)))`)
	assert.Empty(b, found, page)
}

func numbers(t *testing.T, w *works, b *tab) {
	w.hold(t)
	s := read[api.Snapshot](t, b.server, "/snapshot")
	shown := func(stage, column string) string {
		return fmt.Sprintf("[...document.querySelectorAll('tr[data-stage]')].find((r) => r.dataset.stage === %s)?.querySelector('[data-col=%s]')?.textContent",
			quote(stage), column)
	}
	b.show("#/table")
	for name, st := range s.Stages {
		for column, want := range map[string]uint64{
			"accepted": st.Counts.Accepted, "ok": st.Counts.OK, "forwarded": st.Counts.Forwarded, "errors": st.Counts.Errors,
			"crashes": st.Counts.Crashes, "shed": st.Counts.Shed, "dead": st.Counts.DeadLettered,
			"queue": 0, "slots": uint64(st.Queue.Capacity), //nolint:gosec // it is not negative
		} {
			b.until(shown(name, column) + " === " + quote(grouped(want)))
		}
	}
	require.NotZero(t, s.Stages["label"].Counts.Crashes)
	require.NotZero(t, s.Stages["label"].Counts.Errors)

	b.show("#/stage?name=label")
	fact := func(list, name string) string {
		return b.text("[data-of=" + list + "] [data-v=" + name + "]")
	}
	label := s.Stages["label"]
	assert.Equal(t, grouped(label.Counts.Accepted), fact("counts", "accepted"))
	assert.Equal(t, grouped(label.Counts.Restarts), fact("counts", "restarts"))
	b.becomes(func() bool { // the policy may have changed it meanwhile
		return strconv.Itoa(read[api.Snapshot](t, b.server, "/snapshot").Stages["label"].Workers.Live) == fact("workers", "live")
	})
	for _, e := range label.Edges {
		assert.Contains(t, b.text("[aria-label=Edges]"), e.To)
		assert.Contains(t, b.text("[aria-label=Edges]"), grouped(e.Moved))
	}

	b.show("#/failures")
	b.until("document.querySelectorAll('details').length === 2")
	for _, g := range read[api.Failures](t, b.server, "/failures").Groups {
		b.until("[...document.querySelectorAll('details')].some((d) => d.textContent.includes(" + quote(g.Error) + ") && d.querySelector('.times').textContent === '×" + grouped(g.Count) + "')")
	}

	b.show("#/decisions")
	var journal api.Journal
	b.becomes(func() bool {
		journal = read[api.Journal](t, b.server, "/journal")
		return eval[int](b, "document.querySelectorAll('.journal tbody tr').length") == len(journal.Changes)
	})
	for _, c := range journal.Changes {
		assert.Contains(t, b.text(".journal"), c.Reason)
	}

	b.show("#/tree")
	tree := b.text(".tree")
	for name := range s.Stages {
		assert.Contains(t, tree, name)
	}
	b.show("#/policies")
	assert.Equal(t, s.Policy, b.text("[data-v=policy]"))
}

// grouped writes a number as the page does: 1,234.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// quote writes a text as JavaScript does.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can be written
	}
	return string(text)
}

func hostileText(t *testing.T, _ *works, b *tab) {
	for _, page := range append(pages, "#/stage?name="+strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20").Replace(hostile)) {
		b.show(page)
		assert.Zero(t, eval[int](b, "document.querySelectorAll('img, #app script').length"), page)
	}
	b.until("document.querySelector('h1').textContent === " + quote(hostile))
	b.show("#/failures")
	b.until("document.querySelector('main').textContent.includes(" + quote(hostile) + ")")
	eval[any](b, "void document.querySelectorAll('details').forEach((d) => (d.open = true))")
	assert.Zero(t, eval[int](b, "document.querySelectorAll('img, #app script').length"))
}

func slider(t *testing.T, w *works, b *tab) {
	b.show("#/table")
	b.until("document.querySelector('.time input[type=range]').max - document.querySelector('.time input[type=range]').min >= 3000")
	at := b.slide(0)
	b.until("document.querySelector('.brand').textContent.includes('in the past')")
	past := snapshotAt(read[api.History](t, b.server, "/history"), at)
	accepted := func(n uint64) string {
		return "document.querySelector('tr[data-stage=receive] [data-col=accepted]')?.textContent === " + quote(grouped(n))
	}
	b.until(accepted(past.Stages["receive"].Counts.Accepted))
	b.click("Live")
	b.until("document.querySelector('.brand').textContent.includes('live')")

	w.hold(t)
	r := read[api.Recording](t, b.server, "/recording")
	file := filepath.Join(t.TempDir(), "an outage.json")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	w.setHeld(false)
	b.do(chromedp.SetUploadFiles(chromedp.CSS(".files input"), []string{file}))
	b.until("document.querySelector('.brand').textContent.includes('an outage.json')")
	last := r.History.Snapshots[len(r.History.Snapshots)-1]
	b.until(accepted(last.Stages["receive"].Counts.Accepted))
	for _, page := range pages {
		b.show(page)
	}
	b.show("#/graph")
	at = b.slide(0.5)
	verdict := ""
	for _, v := range r.History.Verdicts {
		if s := snapshotAt(r.History, at); v.N <= s.N {
			verdict = v.Text
		}
	}
	require.NotEmpty(t, verdict)
	b.until("document.querySelector('#verdict').textContent.includes(" + quote(verdict) + ")")
	b.show("#/table")
	b.until(accepted(snapshotAt(r.History, at).Stages["receive"].Counts.Accepted))
	b.click("Close file")
	b.until("document.querySelector('.brand').textContent.includes('live')")
	b.until("!(" + accepted(last.Stages["receive"].Counts.Accepted) + ")")

	// Another program shows the recording, too.
	b.do(chromedp.Navigate(serve(t, dashboard.Open(r)).URL + "/#/table"))
	b.until("document.querySelector('.brand')?.textContent.includes('recording')")
	b.until(accepted(last.Stages["receive"].Counts.Accepted))
	b.do(chromedp.Navigate(b.server.URL))
}

// slide moves the slider to a part of its way, and returns the time there.
func (b *tab) slide(to float64) float64 {
	b.Helper()
	return eval[float64](b, fmt.Sprintf(`(() => {
		const slider = document.querySelector('.time input[type=range]');
		slider.value = Number(slider.min) + %f * (slider.max - slider.min);
		slider.dispatchEvent(new Event('input'));
		return Number(slider.value);
	})()`, to))
}

// snapshotAt returns the last snapshot that is not later than a time in
// milliseconds.
func snapshotAt(h api.History, at float64) (found api.Snapshot) {
	for _, s := range h.Snapshots {
		if float64(s.At.UnixMilli()) <= at {
			found = s
		}
	}
	return found
}

func keyboard(t *testing.T, _ *works, b *tab) {
	for _, step := range []struct{ keys, until string }{
		{"gt", "document.querySelector('h1').textContent === 'Table'"},
		{"/", "document.activeElement.id === 'search'"},
		// chromedp types the character of a key whose keydown was answered, too.
		{"\b\b", "document.activeElement.value === ''"},
		{"weigh", "document.querySelectorAll('tr[data-stage]').length === 1 && location.hash.includes('q=weigh')"},
		{kb.Escape, "document.querySelectorAll('tr[data-stage]').length > 1"},
		{"jj", "document.activeElement.textContent === 'weigh'"},
		{"k", "document.activeElement.textContent === 'receive'"},
		{"j" + kb.Enter, "document.querySelector('h1').textContent === 'weigh'"},
		{"?", "document.querySelector('dialog[open]')"},
		{kb.Escape, "!document.querySelector('dialog')"},
	} {
		b.do(chromedp.KeyEvent(step.keys))
		b.until(step.until)
	}
	b.show("#/table?sort=-accepted")
	assert.Equal(t, "descending", eval[string](b, "document.querySelector('th:has([aria-sort]), th[aria-sort=descending]')?.ariaSort"))
}

func title(_ *testing.T, _ *works, b *tab) {
	b.until("document.title.startsWith('! ')")
	b.until("document.querySelector('link[rel=icon]').href.includes('failing')")
	assert.Contains(b, b.text(".chip.bad"), "failed")
}
