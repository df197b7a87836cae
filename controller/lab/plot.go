package lab

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The size of a plot, and of the area with its lines, in pixels.
const (
	plotWidth, plotHeight = 760, 320
	left, right           = 64, 736
	top, bottom           = 26, 278
)

// styles is how many series look different by their colour. A series also has a
// shape and a dash, so that a reader needs no colours.
const styles = 8

// dashes are patterns of lines.
func dashes() []string { return []string{"", "7 3", "2 3", "9 3 2 3"} }

// plot is a picture with two axes.
type plot struct {
	ID, Title, About string
	X, Y             axis
	Series           []series
}

// series is the values of a candidate in a plot, as paths of SVG.
type series struct {
	Name        string
	Class, Dash string
	Line, Marks string
	Bars        string // intervals
	Shape       string // for the legend
	Label       *tick  // text beside a single point
	LabelY      float64
}

// axis maps values to pixels.
type axis struct {
	Name      string
	Ticks     []tick
	low, high float64 // values; logarithms if it is logarithmic
	from, to  float64 // pixels
	log       bool
}

// tick is a text at a pixel.
type tick struct {
	At   float64
	Text string
}

// at returns the pixel of a value. A value beyond the axis is at its end.
func (a *axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(max(v, 1e-9))
	}
	share := (v - a.low) / (a.high - a.low)
	return math.Round(10*(a.from+min(max(share, 0), 1)*(a.to-a.from))) / 10
}

// linear returns an axis from 0 that has room for the values.
func linear(name string, from, to float64, values []float64) axis {
	most := 0.0
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	if most == 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.1, 0.2, 0.5, 1} {
		if most/(part*step) <= 6 {
			step *= part
			break
		}
	}
	a := axis{Name: name, from: from, to: to, high: math.Ceil(most/step-1e-9) * step}
	for i := 0.0; i*step <= a.high*(1+1e-9); i++ {
		a.Ticks = append(a.Ticks, tick{a.at(i * step), number(i * step)})
	}
	return a
}

// logarithmic returns an axis that has the positive values.
func logarithmic(name string, from, to float64, values []float64) axis {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			least, most = min(least, v), max(most, v)
		}
	}
	if most == 0 {
		least, most = 1, 10
	}
	a := axis{Name: name, from: from, to: to, log: true}
	steps := []float64{1, 2, 5}
	if most/least > 1e3 {
		steps = []float64{1}
	}
	var all []float64
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for _, s := range steps {
			all = append(all, s*math.Pow(10, e))
		}
	}
	for len(all) > 2 && all[1] <= least*(1+1e-9) {
		all = all[1:]
	}
	for len(all) > 2 && all[len(all)-2] >= most*(1-1e-9) {
		all = all[:len(all)-1]
	}
	a.low, a.high = math.Log10(all[0]), math.Log10(all[len(all)-1])
	for _, v := range all {
		a.Ticks = append(a.Ticks, tick{a.at(v), number(v)})
	}
	return a
}

// number returns a value as short as it can be read.
func number(v float64) string {
	if v >= 1e6 || v > 0 && v < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
}

// newSeries returns an empty series in the style of a number.
func newSeries(name string, i int) series {
	return series{Name: name, Class: "s" + strconv.Itoa(i%styles), Dash: dashes()[(i+i/styles)%len(dashes())], Shape: shape(i, 16, 7)}
}

// draw adds a line through points, and a mark at some of them, elsewhere for
// each series. A value of NaN or infinity is a gap.
func (p *plot) draw(name string, i int, xs, ys []float64, every int) {
	s := newSeries(name, i)
	var line, marks strings.Builder
	command := "M"
	for k := range xs {
		if math.IsNaN(ys[k]) || math.IsInf(ys[k], 0) {
			command = "M"
			continue
		}
		x, y := p.X.at(xs[k]), p.Y.at(ys[k])
		fmt.Fprintf(&line, "%s%g %g", command, x, y)
		command = "L"
		if (k+i*2)%every == 0 {
			marks.WriteString(shape(i, x, y))
		}
	}
	s.Line, s.Marks = line.String(), marks.String()
	p.Series = append(p.Series, s)
}

// shape returns the path of a mark: its form tells the series.
func shape(i int, x, y float64) string {
	switch i % styles {
	case 0: // a disc
		return fmt.Sprintf("M%g %ga4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x-4, y)
	case 1: // a square
		return fmt.Sprintf("M%g %gh7v7h-7z", x-3.5, y-3.5)
	case 2: // a triangle
		return fmt.Sprintf("M%g %gl4.5 8h-9z", x, y-5)
	case 3: // a diamond
		return fmt.Sprintf("M%g %gl5 5l-5 5l-5 -5z", x, y-5)
	case 4: // a triangle that points down
		return fmt.Sprintf("M%g %gl4.5 -8h-9z", x, y+5)
	case 5: // a plus
		return fmt.Sprintf("M%g %gh2v4h4v2h-4v4h-2v-4h-4v-2h4z", x-1, y-5)
	case 6: // a bar
		return fmt.Sprintf("M%g %gh3v10h-3z", x-1.5, y-5)
	default: // a bar that lies
		return fmt.Sprintf("M%g %gh10v3h-10z", x-5, y-1.5)
	}
}

// overTime returns a plot of a number of the points, against time: for each
// point the median of the runs.
func (r *Report) overTime(id, title, about, unit string, log bool, of func(Point) float64) *plot {
	p := &plot{ID: id, Title: title, About: about}
	lines := make([][]float64, len(r.Outcomes))
	var all []float64
	for i, o := range r.Outcomes {
		lines[i] = medians(o.Runs, of)
		all = append(all, lines[i]...)
	}
	p.X = r.time()
	p.Y = linear(unit, bottom, top, all)
	if log {
		p.Y = logarithmic(unit, bottom, top, all)
	}
	for i, o := range r.Outcomes {
		p.draw(o.Candidate, i, r.middles(), lines[i], points/5)
	}
	return p
}

// time returns the axis of the time of a run.
func (r *Report) time() axis {
	return linear("seconds since the start of the run", left, right, []float64{r.Length.Seconds()})
}

// middles returns the times of points, each in the middle of its part.
func (r *Report) middles() []float64 {
	all := make([]float64, points)
	for k := range all {
		all[k] = r.Length.Seconds() * (float64(k) + 0.5) / points
	}
	return all
}

// medians returns a number of each point, the median of some runs. It is NaN
// where most runs have none.
func medians(runs []*Run, of func(Point) float64) []float64 {
	all := make([]float64, points)
	for k := range all {
		var values []float64
		for _, run := range runs {
			values = append(values, of(run.Points[k]))
		}
		slices.SortFunc(values, func(a, b float64) int { // NaN is the highest
			switch {
			case a < b || math.IsNaN(b) && !math.IsNaN(a):
				return -1
			case a == b || math.IsNaN(a) && math.IsNaN(b):
				return 0
			default:
				return 1
			}
		})
		all[k] = middle(values)
	}
	return all
}

// milliseconds returns a latency for a plot. Where no request was answered
// there is none.
func milliseconds(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return d.Seconds() * 1e3
}

// throughputPlot shows answers and requests a second.
func (r *Report) throughputPlot() *plot {
	p := r.overTime("throughput", "Throughput", "Answers a second over the time of a run. The thin line without marks has the requests a second that were sent.", "answers/s", false,
		func(p Point) float64 { return p.Answered })
	sent := medians(r.Outcomes[0].Runs, func(p Point) float64 { return p.Sent })
	var all []float64
	for _, o := range r.Outcomes {
		all = append(all, medians(o.Runs, func(p Point) float64 { return p.Answered })...)
	}
	p.Y = linear(p.Y.Name, bottom, top, append(all, sent...))
	p.Series = nil
	for i, o := range r.Outcomes {
		p.draw(o.Candidate, i, r.middles(), medians(o.Runs, func(p Point) float64 { return p.Answered }), points/5)
	}
	p.draw("sent", 0, r.middles(), sent, points+1)
	last := &p.Series[len(p.Series)-1]
	last.Class, last.Dash, last.Shape, last.Marks = "sent", "", "", ""
	return p
}

// percentiles are the columns of the plot of latencies.
func percentiles() []float64 { return []float64{10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100} }

// latencyPlot shows the latencies of all runs by percentile.
func (r *Report) latencyPlot() *plot {
	p := &plot{ID: "latency", Title: "Latency by percentile", About: "So many of 100 answers, of all runs, took no longer than the line shows. The scale of times is logarithmic."}
	p.X = axis{Name: "percentile", from: left, to: right, high: float64(len(percentiles()) - 1)}
	lines := make([][]float64, len(r.Outcomes))
	var columns, all []float64
	for k, percent := range percentiles() {
		columns = append(columns, float64(k))
		p.X.Ticks = append(p.X.Ticks, tick{p.X.at(float64(k)), number(percent)})
		for i, o := range r.Outcomes {
			v := math.NaN()
			if o.latency.TotalCount() > 0 {
				v = float64(o.latency.ValueAtPercentile(percent)) / 1e6
			}
			lines[i] = append(lines[i], v)
			all = append(all, v)
		}
	}
	p.Y = logarithmic("ms", bottom, top, all)
	for i, o := range r.Outcomes {
		p.draw(o.Candidate, i, columns, lines[i], 1)
	}
	return p
}

// paretoPlot shows the p99 against worker-seconds, with intervals, and joins
// the candidates that no other one beats in both.
func (r *Report) paretoPlot() *plot {
	p := &plot{ID: "pareto", Title: "Latency against workers"}
	var xs, ys []float64
	for i := range r.Outcomes {
		x, y := r.pareto(i)
		xs, ys = append(xs, x.Median, x.High), append(ys, y.Median, y.Low, y.High)
	}
	p.X = linear("worker-seconds", left, right-90, xs) // with room for names
	p.Y = logarithmic("p99, ms", bottom, top, ys)
	front := r.front()
	names, line := []string{}, ""
	for _, i := range front {
		x, y := r.pareto(i)
		line += fmt.Sprintf("%s%g %g", map[bool]string{true: "M", false: "L"}[line == ""], p.X.at(x.Median), p.Y.at(y.Median))
		names = append(names, r.Outcomes[i].Candidate)
	}
	p.Series = append(p.Series, series{Class: "front", Dash: "4 4", Line: line})
	p.About = "Left and low is better: few workers and short latencies. The bars are the intervals. "
	if len(names) > 0 {
		p.About += "No other candidate has a lower median of both than " + list(names) + "; a dashed line joins such candidates. Medians may differ by noise."
	}
	for i, o := range r.Outcomes {
		x, y := r.pareto(i)
		if math.IsInf(y.Median, 0) {
			p.About += " " + o.Candidate + " has no p99, since it answered nothing."
			continue
		}
		s := newSeries(o.Candidate, i)
		atX, atY := p.X.at(x.Median), p.Y.at(y.Median)
		s.Marks = shape(i, atX, atY)
		s.Bars = fmt.Sprintf("M%g %gH%gM%g %gV%g", p.X.at(x.Low), atY, p.X.at(x.High), atX, p.Y.at(y.Low), p.Y.at(y.High))
		s.Label, s.LabelY = &tick{atX + 9, o.Candidate}, atY-6
		p.Series = append(p.Series, s)
	}
	p.spread()
	return p
}

// pareto returns the two figures of a candidate that its plot has.
func (r *Report) pareto(i int) (workers, latency Figure) {
	workers, _ = r.Outcomes[i].figure(workerSeconds)
	latency, _ = r.Outcomes[i].figure(p99)
	return workers, latency
}

// front returns the candidates that no other one beats in both figures, by
// their worker-seconds.
func (r *Report) front() (front []int) {
	for i := range r.Outcomes {
		x, y := r.pareto(i)
		beaten := math.IsInf(y.Median, 0)
		for k := range r.Outcomes {
			ox, oy := r.pareto(k)
			beaten = beaten || ox.Median <= x.Median && oy.Median <= y.Median && (ox.Median < x.Median || oy.Median < y.Median)
		}
		if !beaten {
			front = append(front, i)
		}
	}
	slices.SortFunc(front, func(a, b int) int {
		ax, _ := r.pareto(a)
		bx, _ := r.pareto(b)
		return int(math.Copysign(1, ax.Median-bx.Median))
	})
	return front
}

// spread moves labels of points that are near each other apart.
func (p *plot) spread() {
	const line = 14
	var labelled []*series
	for i := range p.Series {
		if p.Series[i].Label != nil {
			labelled = append(labelled, &p.Series[i])
		}
	}
	slices.SortFunc(labelled, func(a, b *series) int { return int(math.Copysign(1, a.LabelY-b.LabelY)) })
	for i, s := range labelled {
		for _, above := range labelled[:i] {
			if math.Abs(above.Label.At-s.Label.At) < 90 && s.LabelY-above.LabelY < line {
				s.LabelY = above.LabelY + line
			}
		}
	}
}

// plots returns all plots of a report.
func (r *Report) plots() []*plot {
	return []*plot{
		r.throughputPlot(),
		r.latencyPlot(),
		r.overTime("p99", "p99 over time", "Of the requests that should have been sent in each part of the run, 99 of 100 that were answered took no longer. The scale of times is logarithmic.",
			"ms", true, func(p Point) float64 { return milliseconds(p.P99) }),
		r.overTime("p50", "Median latency over time", "Half of the answers took no longer. The scale of times is logarithmic.", "ms", true, func(p Point) float64 { return milliseconds(p.P50) }),
		r.overTime("queues", "Commands in queues", "In all queues of the pipeline.", "commands", false, func(p Point) float64 { return p.Queued }),
		r.overTime("workers", "Workers", "Live workers of all stages and pools.", "workers", false, func(p Point) float64 { return p.Workers }),
		r.paretoPlot(),
	}
}
