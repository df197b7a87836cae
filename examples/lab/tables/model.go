package tables

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// modelled is the figures of the simulator at the dissertation's machine, and
// why rows have none.
type modelled struct {
	figures map[string]map[string]values // by table
	missing map[string]string            // by policy
}

// model simulates all rows of all tables.
func (b *book) model(ctx context.Context, seed uint64) (*modelled, error) {
	m := &modelled{figures: map[string]map[string]values{"5.1": {}, "5.2": {}, "5.3": {}}, missing: map[string]string{}}
	for _, r := range b.table("5.1").Rows {
		seconds, err := b.modelImages(ctx, &r, seed)
		if err := m.note(ctx, &r, err); err != nil {
			return nil, err
		}
		if err != nil && r.ID == calibrated {
			seconds, err = r.Reported["time"], nil // the work of the model was taken from it
		}
		if err == nil {
			m.figures["5.1"][cellKey(r.ID, "time")] = values{seconds}
		}
	}
	for _, r := range b.table("5.2").Rows {
		times, rates, err := b.modelWeb(ctx, &r, seed)
		if err := m.note(ctx, &r, err); err != nil {
			return nil, err
		}
		if err != nil {
			continue
		}
		for f, v := range times {
			m.figures["5.2"][cellKey(r.ID, f)] = values{v}
		}
		for f, v := range rates {
			m.figures["5.3"][cellKey(r.ID, f)] = values{v}
		}
	}
	return m, nil
}

// note keeps the reason why a row is not simulated. It returns an error if the
// context has ended.
func (m *modelled) note(ctx context.Context, r *row, err error) error {
	if err != nil && ctx.Err() == nil {
		m.missing[r.Configuration.Policy] = strings.TrimPrefix(err.Error(), "simulator: ")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// of returns the figures as a side.
func (m *modelled) of(t *table, r *row, figure string) values {
	return m.figures[t.ID][cellKey(r.ID, figure)]
}

// orderEvery is how long an order of DBR lasts in the model. The default orders
// the stages anew after each round, so each round of threads without work is an
// event of the controller, and a row takes the model minutes.
const orderEvery = 100 * time.Millisecond

// prepared returns a model with the policy and the workers of a row.
func (r *row) prepared(m simulator.Model) (simulator.Model, error) {
	p, err := r.Configuration.shared(1)
	if err != nil {
		return m, err
	}
	if d, ok := p.(policy.DBR); ok {
		d.Interval = orderEvery
		p = d
	}
	m.Policy = p
	for i := range m.Stages {
		m.Stages[i].Workers, m.Stages[i].Most = 1, max(r.Configuration.Each*len(m.Stages), 1)
		if r.Configuration.Each > 0 {
			m.Stages[i].Workers = min(r.Configuration.Each, m.Stages[i].Most)
		} else {
			m.Stages[i].Instances = max(r.Configuration.Pool, 1) // any thread of the pool may be at any stage
		}
	}
	return m, nil
}

// calibrated is the row of table 5.1 that keeps all CPUs busy.
const calibrated = "single"

// modelImages returns the time of all images on the dissertation's CPUs. Two
// rows of the table calibrate it: the single queue, which keeps all CPUs busy,
// says how much work an image is, and SEDA with two threads per stage how much
// work there is at the slowest stage. The rest is shared by the other stages.
func (b *book) modelImages(ctx context.Context, r *row, seed uint64) (float64, error) {
	t := b.table("5.1")
	work := t.row(calibrated).Reported["time"] * float64(b.Machine.CPUs) / float64(b.Images)
	slowest := t.row("seda-14").Reported["time"] * float64(t.row("seda-14").Configuration.Each) / float64(b.Images)
	m := simulator.Model{
		Seed: seed, Length: time.Hour, CPUs: b.Machine.CPUs,
		Sources: []simulator.Source{{To: stageName(0), Load: batch(b.Images)}},
	}
	for i := range stagesOfImages {
		takes := slowest
		if i != 0 {
			takes = (work - slowest) / (stagesOfImages - 1)
		}
		st := simulator.Stage{Name: stageName(i), Computes: true, Service: simulator.Constant(takes * 1e9)}
		if i+1 < stagesOfImages {
			st.Forward = []simulator.Edge{{To: stageName(i + 1), Share: 1}}
		}
		m.Stages = append(m.Stages, st)
	}
	m, err := r.prepared(m)
	if err != nil {
		return 0, err
	}
	done, err := simulator.Run(ctx, m)
	if err != nil {
		return 0, err
	}
	if done.InFlight > 0 {
		return 0, fmt.Errorf("%d images are not done after %v", done.InFlight, m.Length)
	}
	return done.Latency.Longest().Seconds() * float64(b.Images) / float64(done.Arrived), nil
}

// stageName names a stage of the model of the images.
func stageName(i int) string { return fmt.Sprintf("stage %d", i+1) }

// batch is a load of a number of commands in the first tenth of a second.
func batch(n int) simulator.Load {
	const first = 100 * time.Millisecond
	return simulator.Step(float64(n)/first.Seconds(), 0, first)
}

// modelWeb returns the figures of tables 5.2 and 5.3. The machine did not scale
// to its CPUs: it made 3.6 pages a second with two threads at the slow stage
// and 4.0 with any larger number, as table 5.3 reports. So a page takes the
// threads of its row divided by that rate. As in the dissertation no
// connections are accepted once a number of them is open.
func (b *book) modelWeb(ctx context.Context, r *row, seed uint64) (times, rates map[string]float64, err error) {
	threads, capacity := r.Configuration.Pool, b.Capacity
	if threads == 0 {
		threads = r.Configuration.Each
	}
	if threads == 2 {
		capacity = b.table("5.3").row("seda-10").Reported["mean"]
	}
	sent := time.Duration(float64(b.Requests) / b.Rate * 1e9)
	m := simulator.Model{
		Seed: seed, Length: time.Duration(1.5 * float64(b.Requests) / capacity * 1e9), Every: 100 * time.Millisecond,
		Sources: []simulator.Source{{To: "start", Load: simulator.Step(b.Rate, 0, sent)}},
		Stages: []simulator.Stage{
			{Name: "start", Service: quick, Forward: []simulator.Edge{{To: "parse", Share: 1}}},
			{Name: "parse", Service: quick, Emit: []simulator.Edge{{To: "static", Share: 1}}, Forward: []simulator.Edge{{To: "dynamic", Share: 1}}},
			{Name: "dynamic", Service: simulator.Constant(float64(threads) / capacity * 1e9), Forward: []simulator.Edge{{To: "send", Share: 1}}},
			{Name: "static", Service: quick, Forward: []simulator.Edge{{To: "send", Share: 1}}},
			{Name: "send", Service: quick},
		},
	}
	for i := range m.Stages {
		m.Stages[i].Capacity = 2 * b.Requests
		m.Stages[i].Computes = true // policies of visits leave stages alone whose handlers wait
	}
	if m, err = r.prepared(m); err != nil {
		return nil, nil, err
	}
	open, err := simulator.Run(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range open.Series {
		if p.InFlight >= b.Connections {
			m.Sources[0].Load = simulator.Step(b.Rate, 0, p.At)
			break
		}
	}
	m.Every = time.Duration(b.Window * 1e9)
	done, err := simulator.Run(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	var replies []float64
	for _, p := range done.Series {
		if p.InFlight == 0 && p.Done == 0 {
			break
		}
		replies = append(replies, float64(p.Done)/b.Window)
	}
	if len(replies) > 1 {
		replies = replies[:len(replies)-1] // the last window ends after the last reply
	}
	return spread(done.Latency), summary(replies), nil
}

// quick is the time of the stages that do hardly anything.
const quick = simulator.Constant(time.Millisecond)

// spread returns the four figures of a histogram.
func spread(l simulator.Latency) map[string]float64 {
	const parts = 1000
	mean, squares := l.Mean().Seconds(), 0.0
	for i := range parts {
		d := l.Quantile((float64(i)+0.5)/parts).Seconds() - mean
		squares += d * d / parts
	}
	return map[string]float64{"min": l.Quantile(0).Seconds(), "max": l.Longest().Seconds(), "mean": mean, "sd": math.Sqrt(squares)}
}
