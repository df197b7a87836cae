package lab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawn returns a report of candidates with invented runs. Each candidate has a multiple of the latencies of the one before.
func drawn(names ...string) *Report {
	r := &Report{Title: "A <title> & more", Workload: "Burst(200/s, 800/s from 4s to 6s)", Machine: "a machine", Length: 10 * time.Second, Runs: 5, Coverage: 0.9375}
	for i, name := range names {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		o := Outcome{Candidate: name, latency: newHistogram()}
		for range r.Runs {
			run := &Run{latency: newHistogram(), figures: map[string]float64{fairness: math.NaN()}}
			for k := range points {
				slow := float64(1+i) * (1 + random.Float64())
				if k >= 20 && k < 32 {
					slow *= 30
				}
				rate := 200.0
				if k >= 20 && k < 30 {
					rate = 800
				}
				run.Points = append(run.Points, Point{
					At: r.Length * time.Duration(k+1) / points, Sent: rate, Answered: min(rate, 400) * (0.9 + 0.2*random.Float64()),
					P50: time.Duration(slow * 1e6), P99: time.Duration(4 * slow * 1e6), Queued: slow, Workers: float64(i + 1),
				})
				for range 20 {
					run.add(answer{latent: time.Duration(slow * random.ExpFloat64() * 1e6)}, time.Second)
				}
			}
			for _, d := range definitions() {
				if _, ok := run.figures[d.name]; !ok {
					run.figures[d.name] = float64(i+1) * (10 + random.Float64())
				}
			}
			o.add(run)
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	r.conclude()
	return r
}

func written(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WriteHTML(&b))
	return b.String()
}

// elements parses a page by the strict rules of XML, and calls f for each element.
func elements(t *testing.T, page string, f func(e xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			f(e)
		}
	}
}

func TestThePageIsWellFormedAndNeedsNothingElse(t *testing.T) {
	page := written(t, drawn("backlog", "seda", "<b>fixed</b>", "d", "e", "f", "g", "h", "i", "j"))
	ids, count := map[string]int{}, map[string]int{}
	var labels []string
	elements(t, page, func(e xml.StartElement) {
		count[e.Name.Local]++
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "id":
				ids[a.Value]++
			case "aria-labelledby":
				labels = append(labels, a.Value)
			case "d", "points", "x", "y":
				assert.NotRegexp(t, `NaN|Inf|e[+-]`, a.Value, "%v", e)
			}
			assert.NotContains(t, []string{"src", "href"}, a.Name.Local)
			assert.NotContains(t, a.Value, "ZgotmplZ", "the template refused a value")
		}
	})
	assert.Zero(t, count["script"]+count["link"]+count["img"]+count["iframe"])
	assert.NotRegexp(t, `https?://|@import|url\(`, page)
	assert.Equal(t, 7, count["figure"])
	for id, n := range ids {
		assert.Equal(t, 1, n, id)
	}
	require.Len(t, labels, 7, "each plot has a text")
	for _, id := range labels {
		assert.Equal(t, 1, ids[id], id)
	}
	assert.Contains(t, page, "A &lt;title&gt; &amp; more")
	assert.Contains(t, page, "&lt;b&gt;fixed&lt;/b&gt;")
}

func TestCandidatesDifferByShapeAndDashAsWellAsByColour(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("candidate ", i))
	}
	looks := map[string]string{}
	for _, s := range drawn(names...).overTime("x", "", "", "", false, func(p Point) float64 { return p.Workers }).Series {
		look := s.Shape + s.Dash // without its colour
		assert.Empty(t, looks[look], s.Name)
		looks[look] = s.Name
	}
	require.Len(t, looks, 20)
}

func TestAPageSaysWhenNothingDiffers(t *testing.T) {
	r := drawn("a")
	twin := r.Outcomes[0]
	twin.Candidate = "b"
	r.Outcomes = append(r.Outcomes, twin)
	r.conclude()
	page := written(t, r)
	assert.Contains(t, page, "<li>Null result: no candidate differs from another one beyond noise, in anything below.</li>")
	assert.Contains(t, page, "<li>p99: nothing differs (")
}

func TestACandidateWithoutAnswersHasNoPointAndAText(t *testing.T) {
	r := drawn("works", "refuses")
	o := &r.Outcomes[1]
	o.latency = newHistogram()
	for _, run := range o.Runs {
		for _, name := range []string{p50, p99, p999, longest} {
			run.figures[name] = math.Inf(1)
		}
		for k := range run.Points {
			run.Points[k].P50, run.Points[k].P99 = 0, 0
		}
	}
	o.Figures = nil
	r.conclude()
	page := written(t, r)
	elements(t, page, func(xml.StartElement) {})
	assert.NotContains(t, page, "NaN")
	assert.Contains(t, page, "refuses has no p99, since it answered nothing.")
	assert.Contains(t, page, "<td>never</td>")
}

func TestAnAxisHasRoomForItsValues(t *testing.T) {
	for _, most := range []float64{0, 0.003, 0.4, 1, 7, 60, 99, 100, 12_345, 4e7} {
		a := linear("", 0, 100, []float64{most})
		assert.GreaterOrEqual(t, a.high, most)
		assert.LessOrEqual(t, len(a.Ticks), 12)
		assert.GreaterOrEqual(t, len(a.Ticks), 3)
		assert.InDelta(t, 100, a.Ticks[len(a.Ticks)-1].At, 0.1)
	}
	for _, c := range [][2]float64{{1, 1}, {0.02, 0.03}, {0.5, 600}, {1e-6, 1e6}, {3, 4000}} {
		a := logarithmic("", 0, 100, c[:])
		assert.LessOrEqual(t, math.Pow(10, a.low), c[0]*1.001, "%v", c)
		assert.GreaterOrEqual(t, math.Pow(10, a.high), c[1]*0.999, "%v", c)
		assert.LessOrEqual(t, len(a.Ticks), 16, "%v", c)
	}
}

func TestTheFrontHasTheCandidatesThatNoOtherOneBeatsInBoth(t *testing.T) {
	r := &Report{}
	for i, c := range [][2]float64{{10, 5}, {5, 10}, {10, 10}, {20, 5}, {1, math.Inf(1)}} {
		r.Outcomes = append(r.Outcomes, Outcome{Candidate: fmt.Sprint(i), Figures: []Figure{
			{Name: workerSeconds, Median: c[0]}, {Name: p99, Median: c[1]},
		}})
	}
	assert.Equal(t, []int{1, 0}, r.front())
}

// With -artifacts the screenshot is kept: go test -run Browser -artifacts ./controller/lab.
func TestABrowserShowsThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium here")
	}
	dir := t.ArtifactDir()
	file, picture := filepath.Join(dir, "lab.html"), filepath.Join(dir, "lab.png")
	require.NoError(t, os.WriteFile(file, []byte(written(t, drawn("backlog", "seda", "fixed", "srpt"))), 0o600))
	run := func(args ...string) string {
		args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir()}, args...)
		out, err := exec.CommandContext(t.Context(), browser, append(args, "file://"+file)...).Output() //nolint:gosec // the browser of this machine
		require.NoError(t, err)
		return string(out)
	}
	shown := run("--dump-dom")
	assert.Equal(t, 7, strings.Count(shown, `role="img"`))
	assert.Contains(t, shown, "Latency against workers")
	run("--window-size=1000,4400", "--screenshot="+picture)
	require.FileExists(t, picture)
	t.Logf("screenshot: %s", picture)
}
