package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/controller/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachClaimHoldsInTheReportedFigures(t *testing.T) {
	b, err := read()
	require.NoError(t, err)
	for _, c := range b.Claims {
		assert.Equal(t, yes, b.holds(c, reportedBy), c.Text)
	}
}

func TestTheTablesHaveTheRowsOfTheDissertation(t *testing.T) {
	b, err := read()
	require.NoError(t, err)
	rows := map[string]int{}
	for _, table := range b.Tables {
		rows[table.ID] = len(table.Rows)
	}
	assert.Equal(t, map[string]int{"5.1": 9, "5.2": 10, "5.3": 10}, rows)
	for _, r := range b.table("5.2").Rows {
		assert.Equal(t, r.Configuration, b.table("5.3").row(r.ID).Configuration, "one run gives both tables")
	}
}

// modelOnce returns the figures of the model, which take some seconds.
var modelOnce = sync.OnceValues(func() (*modelled, error) {
	b, err := read()
	if err != nil {
		return nil, err
	}
	return b.model(context.Background(), 1)
})

// measured returns a result with figures that are invented: those of the dissertation, each 1 % larger.
func measured(t *testing.T) *Result {
	t.Helper()
	b, err := read()
	require.NoError(t, err)
	model, err := modelOnce()
	require.NoError(t, err)
	r := &Result{
		Options: Scaled(), book: b, model: model, runs: [2]int{3, 1}, shorter: 250, machine: "a machine", took: time.Minute,
		Web:     &lab.Report{},
		figures: map[string]map[string]values{},
		loads:   []served{{Server: "Golda", Answers: 10, Rate: 5}},
	}
	for _, table := range b.Tables {
		r.figures[table.ID] = map[string]values{}
		for _, row := range table.Rows {
			for f, v := range row.Reported {
				r.figures[table.ID][cellKey(row.ID, f)] = values{1.01 * v, 1.02 * v, 1.01 * v}
			}
			for _, f := range []string{"cpu", "memory", "alive"} {
				r.figures[table.ID][cellKey(row.ID, f)] = values{1}
			}
		}
	}
	return r
}

// fixedCells returns the cells of each row of the dissertation's tables that do not depend on a measurement, by heading.
func fixedCells(page string) map[string][][]string {
	all := map[string][][]string{}
	heading := ""
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(title)
		}
		if strings.HasPrefix(line, "| ") && strings.HasPrefix(heading, "Table ") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			var kept []string
			for _, i := range []int{0, 1, 2, 5, 8} { // the policy, the threads, the reported figures, the claim, the reason
				kept = append(kept, strings.TrimSpace(cells[i]))
			}
			all[heading] = append(all[heading], kept)
		}
	}
	return all
}

func TestThePageInDocsHasTheReportedFigures(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "tables.md"))
	require.NoError(t, err)
	var again bytes.Buffer
	require.NoError(t, measured(t).WriteMarkdown(&again))
	want := fixedCells(again.String())
	require.Len(t, want, 3)
	assert.Equal(t, want, fixedCells(string(page)), "write docs/tables.md again: go run ./examples/lab -tables")
}

func TestTheTablesCanBeReadAsTextAndAsJSON(t *testing.T) {
	r := measured(t)
	assert.Regexp(t, `(?m)^SEDA +14 \(2 per stage\) +620\.04 \(1\.42\) +62\d\.\d\d \(1\.42\) +626\.24 \(1\.42\) +42 % longer than Single queue +yes +yes$`, r.String())
	assert.Contains(t, r.String(), "\nLRB, 14: As Cohort.")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back struct{ Tables []sheet }
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r.everything(), back.Tables)
}

func TestThePageIsWellFormedAndNeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, measured(t).WriteHTML(&b))
	assert.NotRegexp(t, `https?://|@import|url\(|<script|NaN|Inf`, strings.ReplaceAll(b.String(), "http://www.w3.org", ""))
	d := xml.NewDecoder(&b)
	d.Entity = xml.HTMLEntity
	plots, marks := 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "role" && a.Value == "img" {
					plots++
				}
				if e.Name.Local == "g" && a.Name.Local == "class" && a.Value == "here" {
					marks++
				}
			}
		}
	}
	assert.Equal(t, 3, plots)
	assert.Equal(t, 29, marks)
}

// With -artifacts the screenshot is kept: go test -run Browser -artifacts ./lab/tables.
func TestABrowserShowsThePlots(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no Chromium here")
	}
	dir := t.ArtifactDir()
	file, picture := filepath.Join(dir, "tables.html"), filepath.Join(dir, "tables.png")
	var page bytes.Buffer
	require.NoError(t, measured(t).WriteHTML(&page))
	require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
	run := func(args ...string) string {
		args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir()}, args...)
		out, err := exec.CommandContext(t.Context(), browser, append(args, "file://"+file)...).Output() //nolint:gosec // the browser of this machine
		require.NoError(t, err)
		return string(out)
	}
	assert.Equal(t, 3, strings.Count(run("--dump-dom"), `role="img"`))
	run("--window-size=1250,4400", "--screenshot="+picture)
	require.FileExists(t, picture)
	t.Logf("screenshot: %s", picture)
}

func TestTwoFiguresCompare(t *testing.T) {
	for name, c := range map[string]struct {
		v, w values
		want relation
	}{
		"within the margin":               {values{100}, values{104}, equal},
		"below":                           {values{90}, values{100}, below},
		"above":                           {values{110, 120, 115}, values{100, 101, 102}, above},
		"medians differ, runs overlap":    {values{110, 90, 115}, values{100, 101, 102}, equal},
		"the same runs":                   {values{5, 6}, values{5, 6}, equal},
		"no overlap, but within a margin": {values{1, 1.01}, values{1.02, 1.03}, equal},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.v.against(c.w)) })
	}
}

func TestAClaimIsUnknownWithoutFiguresUnlessOthersRefuteIt(t *testing.T) {
	b, err := read()
	require.NoError(t, err)
	c := claim{Table: "5.1", Figure: "time", Left: []string{"single"}, Op: below, Right: []string{"lrb", "dbr"}}
	only := func(ids map[string]float64) side {
		return func(_ *table, r *row, _ string) values {
			if v, ok := ids[r.ID]; ok {
				return values{v}
			}
			return nil
		}
	}
	assert.Equal(t, unknown, b.holds(c, only(map[string]float64{"single": 1, "lrb": 2})))
	assert.Equal(t, no, b.holds(c, only(map[string]float64{"single": 3, "lrb": 2})))
	assert.Equal(t, yes, b.holds(c, only(map[string]float64{"single": 1, "lrb": 2, "dbr": 2})))
}

func TestAScaleKeepsTheRatioOfLoadAndCapacity(t *testing.T) {
	b, err := read()
	require.NoError(t, err)
	s := b.newScale(200, 400) // 50 times the capacity, and a fifth of the requests
	assert.InDelta(t, 50, s.faster, 1e-9)
	assert.InDelta(t, 250, s.shorter, 1e-9)
	w := &web{book: &b, requests: 400}
	assert.Equal(t, 200, w.most())
	c := &client{answers: []answer{{sent: time.Second / 2, at: time.Second}, {at: time.Second / 4}}}
	times, rates := c.figures(s, 5)
	assert.Equal(t, map[string]float64{"min": 62.5, "max": 125, "mean": 93.75, "sd": 31.25}, times)
	assert.InDelta(t, 1.0/50, rates["mean"], 1e-9, "one answer stands for five, in 50 windows of 5 s; the one at the very end is in none")
}

func TestAnAnswerAtTheEndOfTheLastWindowIsInNoWholeWindow(t *testing.T) {
	assert.Nil(t, perWindow(nil, 5, 1))
	assert.Equal(t, []float64{0.4, 0.2}, perWindow([]float64{1, 2, 7, 10, 11}, 5, 1))
	assert.Equal(t, []float64{0.4}, perWindow([]float64{1, 2}, 5, 1))
}

func TestAClockLeavesOutTheTimeOfOthers(t *testing.T) {
	c := &clock{samples: []sample{{2 * time.Second, time.Second}, {3 * time.Second, 2 * time.Second}, {5 * time.Second, 2 * time.Second}}}
	for wall, own := range map[time.Duration]time.Duration{0: 0, 1: 500, 2: 1000, 3: 2000, 4: 2000, 5: 2000, 6: 3000} {
		assert.Equal(t, own*time.Millisecond, c.at(wall*time.Second), "%d s", wall)
	}
	assert.Equal(t, time.Second, new(clock).at(time.Second), "no sample: as the wall clock")
	assert.InDelta(t, 1-0.5/float64(runtime.NumCPU()), shareLeft(time.Second, 2*time.Second), 1e-9)
	assert.InDelta(t, 1, shareLeft(-time.Second, time.Second), 1e-9)
}

func TestAClockNeverGoesBackAndIsNeverAheadOfTheWallClock(t *testing.T) {
	var c clock
	c.start(time.Now())
	for range 20 {
		time.Sleep(between) // the system counts in such steps
		c.sample()
	}
	require.NotEmpty(t, c.samples)
	before := sample{}
	for _, s := range c.samples {
		assert.GreaterOrEqual(t, s.own, before.own)
		assert.LessOrEqual(t, s.own-before.own, s.wall-before.wall)
		before = s
	}
}

func TestTheWebServerIsMeasuredUnderAllPolicies(t *testing.T) {
	b, err := read()
	require.NoError(t, err)
	w := &web{book: &b, requests: 40, page: time.Millisecond, runs: 1, late: time.Hour, seed: 1, progress: io.Discard}
	all, report, err := w.measure(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Outcomes, 10)
	for _, o := range report.Outcomes {
		run := o.Runs[0]
		assert.Equal(t, 40, run.Sent)
		assert.Zero(t, run.Failed, o.Candidate)
		assert.Equal(t, 40, run.Answered+run.Refused, o.Candidate)
		assert.GreaterOrEqual(t, run.Answered, w.most(), o.Candidate)
	}
	for _, table := range []string{"5.2", "5.3"} {
		for _, r := range b.table(table).Rows {
			for _, f := range b.table(table).Figures {
				require.Len(t, all[table][cellKey(r.ID, f.ID)], 1, "%s %s %s", table, r.ID, f.ID)
			}
		}
	}
}

func TestAClientOpensNoConnectionsOnceAsManyAreOpenAsMayBe(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	c := &client{addr: server.Listener.Addr().String(), most: 2}
	errs := make(chan error, 2)
	for n := range 2 {
		go func() { errs <- c.send(t.Context(), lab.Request{N: n}) }()
	}
	require.Eventually(t, func() bool { return c.open.Load() == 2 }, time.Minute, time.Millisecond)
	require.ErrorContains(t, c.send(t.Context(), lab.Request{N: 2}), "2 connections were open")
	close(held)
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Error(t, c.send(t.Context(), lab.Request{N: 3}), "the server accepts no more, for ever")
	assert.Len(t, c.answers, 2)
}

func TestClientsCountEachKindOfAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		check   func(t *testing.T, s served, err error)
	}{
		"a server that works": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") },
			func(t *testing.T, s served, err error) {
				require.NoError(t, err)
				assert.Positive(t, s.Answers)
				assert.Zero(t, s.Other+s.Broken)
				assert.LessOrEqual(t, s.P50, s.P99)
			},
		},
		"a server that does not have the file": {
			http.NotFound,
			func(t *testing.T, s served, err error) {
				require.ErrorContains(t, err, "gave no answer")
				assert.Positive(t, s.Other)
			},
		},
		"a server that breaks connections": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			func(t *testing.T, s served, err error) {
				require.ErrorContains(t, err, "gave no answer")
				assert.Positive(t, s.Broken)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			s, err := clients{4, 50 * time.Millisecond, "/index.html"}.load(context.Background(), "it", server.Listener.Addr().String())
			c.check(t, s, err)
		})
	}
}

func TestTheProgramsOfTheExamplesAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles two programs")
	}
	b, err := read()
	require.NoError(t, err)
	p, err := compile(t.Context(), "images", "webserver")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.remove()) }()
	var progress bytes.Buffer
	figures, err := (&images{book: &b, programs: p, n: 3, size: "small", runs: 1, seed: 1, progress: &progress}).measure(t.Context())
	require.NoError(t, err)
	for _, r := range b.table("5.1").Rows {
		for _, f := range []string{"time", "cpu", "memory", "alive"} {
			require.Len(t, figures[cellKey(r.ID, f)], 1, r.ID)
		}
	}
	assert.Contains(t, progress.String(), fmt.Sprintf("images 9 of 9  %s: ", b.table("5.1").Rows[8].name()))
	c := clients{10, 100 * time.Millisecond, "/index.html"}
	addr, server, err := c.serve(t.Context(), p, 593)
	require.NoError(t, err)
	defer stopProcess(server)
	all, err := c.compare(t.Context(), 2, []target{{"ours", addr}, {"again", addr}}, io.Discard)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, s := range all {
		assert.Zero(t, s.Other+s.Broken+s.Silent)
	}
}
