package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/golda-dev/golda/internal/cputime"
)

// images measures table 5.1: each configuration runs examples/images in a
// process of its own, on the same images.
type images struct {
	book     *book
	programs *programs
	n        int
	size     string // of the images, as examples/images has it
	runs     int
	budget   time.Duration // no further round begins after that; 0: no budget
	seed     uint64
	progress io.Writer
}

// imagesRun is the report of examples/images on a run.
type imagesRun struct {
	OK       int     `json:"ok"`
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`
	PeakRSS  float64 `json:"peak_rss_bytes"`
	PeakLive float64 `json:"peak_live_images"`
	Balanced bool    `json:"balanced"`

	ours float64 // the share of the CPUs that other processes left
}

// measure returns the figures of each row, for each run. The runs are
// interleaved, so that a slow change of the machine affects all rows.
func (m *images) measure(ctx context.Context) (map[string]values, error) {
	if _, err := m.run(ctx, "-captchas", "captchas", "-n", strconv.Itoa(m.n), "-size", m.size, "-seed", strconv.FormatUint(m.seed, 10)); err != nil {
		return nil, err
	}
	begin, all := time.Now(), map[string]values{}
	rows := m.book.table("5.1").Rows
	for round := range m.runs {
		if m.budget > 0 && time.Since(begin) > m.budget {
			break
		}
		for i := range rows {
			r := rows[(i+round)%len(rows)]
			done, err := m.run(ctx, append([]string{"-in", "captchas"}, r.Configuration.flags()...)...)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name(), err)
			}
			for f, v := range map[string]float64{"time": done.ours * done.WallMS / 1e3, "cpu": done.CPUMS / 1e3, "memory": done.PeakRSS / (1 << 20), "alive": done.PeakLive} {
				all[cellKey(r.ID, f)] = append(all[cellKey(r.ID, f)], v)
			}
			_, _ = fmt.Fprintf(m.progress, "images %d of %d  %s: %.2f s\n", round*len(rows)+i+1, m.runs*len(rows), r.name(), done.ours*done.WallMS/1e3)
		}
	}
	return all, nil
}

// flags returns the flags of examples/images for a configuration.
func (c configuration) flags() []string {
	if c.Pool > 0 {
		return []string{"-policy", c.Policy, "-pool", strconv.Itoa(c.Pool), "-workers", strconv.Itoa(c.Pool)}
	}
	if c.Policy == "fixed" {
		return []string{"-policy", c.Policy, "-workers", strconv.Itoa(c.Each)}
	}
	return []string{"-policy", c.Policy, "-workers", strconv.Itoa(stagesOfImages * c.Each)} // any stage may steal all
}

// stagesOfImages is how many stages the image application has.
const stagesOfImages = 7

// run runs the program once, and checks that it did all images.
func (m *images) run(ctx context.Context, args ...string) (done imagesRun, err error) {
	var stderr bytes.Buffer
	cmd := m.programs.command(ctx, "images", append([]string{"-json", "-out", "written"}, args...)...)
	cmd.Stderr = &stderr
	begin, before, known := startOf()
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return done, context.Cause(ctx)
	}
	if err != nil {
		return done, fmt.Errorf("examples/images: %w\n%s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, &done); err != nil {
		return done, fmt.Errorf("examples/images: %w", err)
	}
	if done.OK != m.n || !done.Balanced {
		return done, fmt.Errorf("examples/images: %d of %d images written, balanced: %v", done.OK, m.n, done.Balanced)
	}
	done.ours = 1
	if known {
		after, _, _ := cputime.Machine()
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		done.ours = shareLeft(after-before-used, time.Since(begin))
	}
	return done, nil
}

// startOf returns the time, and how much CPU time the machine has used.
func startOf() (begin time.Time, busy time.Duration, known bool) {
	busy, _, known = cputime.Machine()
	return time.Now(), busy, known
}

// shareLeft returns the share of the CPUs that others left in a time in which
// they used some CPU time.
func shareLeft(others, during time.Duration) float64 {
	return 1 - min(max(others.Seconds()/during.Seconds()/float64(runtime.NumCPU()), 0), 0.99)
}
