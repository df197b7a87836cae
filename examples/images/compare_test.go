package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestPoliciesAreComparedSideBySide(t *testing.T) {
	p := newPlace(t)
	done := p.run(t.Context(), "-n", "12", "-crash", "0.3", "-policies", "erlda, cohort,seda:cruz")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	lines := strings.Split(done.stdout, "\n")
	require.Len(t, lines, 1+3+1+2, done.stdout)
	assert.Equal(t, []string{"policy", "wall", "cpu", "images", "alive", "peak", "memory", "rounds", "empty", "visits", "ok/failed", "balanced"},
		strings.Fields(lines[0]))
	for i, name := range []string{"erlda", "cohort", "seda:cruz"} {
		cells := strings.Fields(lines[i+1])
		assert.Equal(t, name, cells[0])
		assert.Equal(t, []string{"12/0", "yes"}, cells[len(cells)-2:])
	}
	assert.Equal(t, "images byte-identical across policies: yes", lines[5])
	assert.Equal(t, []string{"cohort", "erlda", "seda_cruz"}, names(t, p.out))
	for _, dir := range names(t, p.out) {
		requireWhole(t, filepath.Join(p.out, dir), 12)
	}
	assert.Len(t, names(t, p.captchas), 12)
}

func TestAComparisonInJSONIsALineForEachPolicy(t *testing.T) {
	p := newPlace(t)
	done := p.run(t.Context(), "-n", "12", "-json", "-policies", "lrb,srpt,fixed")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	all := done.reports(t)
	require.Len(t, all, 3)
	for i, name := range []string{"lrb", "srpt", "fixed"} {
		got := all[i]
		assert.Equal(t, name, got.Policy)
		assert.EqualValues(t, 12, got.OK)
		assert.True(t, got.Balanced)
		assert.NotNil(t, got.CPUMS)
		assert.Positive(t, got.PeakLive)
		assert.Positive(t, got.PeakRSSBytes)
		requireSevenStages(t, got.Stages, 12)
		files, err := filepath.Glob(filepath.Join(p.out, name, "*.png"))
		require.NoError(t, err)
		want, err := digest(files)
		require.NoError(t, err)
		assert.Equal(t, want, got.Digest)
		assert.Equal(t, all[0].Digest, got.Digest)
	}
	assert.Positive(t, all[0].Rounds, "lrb polls")
	assert.Zero(t, all[2].Rounds+all[2].EmptyVisits, "fixed shares nothing")
}

func TestAComparisonTakesTheFilesOfADirectory(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.jpg": drawn(t, 1), "b.jpg": drawn(t, 2), "c.txt": []byte("no image")})
	done := p.run(t.Context(), "-in", p.in, "-json", "-policies", "color,dbr")
	assert.Equal(t, show.StatusFailed, done.status, "one file is not an image")
	all := done.reports(t)
	require.Len(t, all, 2)
	for _, got := range all {
		assert.EqualValues(t, 2, got.OK)
		assert.EqualValues(t, 1, got.Failed)
		assert.Equal(t, all[0].Digest, got.Digest, "the written images are the same")
	}
	assert.NoDirExists(t, p.captchas)
	assert.Contains(t, done.stderr, "images: policy color: failed")
	assert.Equal(t, show.StatusOK, p.run(t.Context(), "-in", p.in, "-n", "2", "-policies", "color").status)
}

func TestDifferentImagesAreReported(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"a.jpg": drawn(t, 1), "b.jpg": drawn(t, 2)})
	require.NoError(t, os.MkdirAll(filepath.Join(p.out, "seda", "a.png", "in the way"), 0o777))
	done := p.run(t.Context(), "-in", p.in, "-policies", "erlda,seda,cohort")
	assert.Equal(t, show.StatusFailed, done.status)
	assert.Contains(t, done.stdout, "images byte-identical across policies: no, not those of erlda and of seda\n")
	assert.Contains(t, done.stderr, "images: images that differ from those of erlda: seda\n")
}

func TestAnInterruptedComparisonReportsWhatRan(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for { // until the first image of the second policy is there
			if list, _ := os.ReadDir(filepath.Join(p.out, "cohort")); len(list) > 1 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	done := p.run(ctx, "-n", "300", "-json", "-policies", "srpt,cohort,seda")
	assert.Equal(t, show.StatusInterrupted, done.status, done.stderr)
	all := done.reports(t)
	require.Len(t, all, 2, "seda was not started")
	assert.EqualValues(t, 300, all[0].OK)
	assert.Positive(t, all[1].OK)
	assert.Less(t, all[1].OK, uint64(300))
	assert.True(t, all[1].Balanced)
	assert.Contains(t, done.stderr, "images: interrupted; 1 of 3 policies ran to their end\n")
	requireWhole(t, filepath.Join(p.out, "cohort"), int(all[1].OK))
	assert.Empty(t, names(t, filepath.Join(p.out, "seda")))
}

func TestAComparisonThatIsInterruptedWhileDrawingStillReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := newPlace(t).run(ctx, "-policies", "erlda,seda")
	assert.Equal(t, show.StatusInterrupted, done.status)
	assert.Contains(t, done.stdout, "fewer than two policies ran to their end")
	assert.Contains(t, done.stderr, "0 of 2 policies")
}

func TestTheComparisonOfFailedRuns(t *testing.T) {
	var out bytes.Buffer
	cpu := int64(1500)
	all := comparison{
		{policy: "erlda", report: &report{WallMS: 2000, CPUMS: &cpu, OK: 3, Balanced: true, PeakLive: 2, PeakRSSBytes: 5 << 20, Digest: "a"}},
		{policy: "color", report: &report{OK: 1, Failed: 1, DeadLettered: 1, Rounds: 4, EmptyVisits: 5, Digest: "a"}, status: show.StatusFailed},
		{policy: "seda", died: errors.New("signal: killed"), status: show.StatusFailed},
		{policy: "mg1", report: &report{Balanced: true, Digest: "b"}, status: show.StatusInterrupted},
	}
	require.NoError(t, all.print(&out))
	assert.Equal(t, strings.TrimPrefix(`
             policy  wall   cpu  images alive  peak memory  rounds  empty visits  ok/failed  balanced
              erlda    2s  1.5s             2        5 MiB       0             0        3/0       yes
              color    0s     -             0        0 MiB       4             5        1/2        NO
        seda (died)     -     -             -            -       -             -          -         -
  mg1 (interrupted)    0s     -             0        0 MiB       0             0        0/0       yes

images byte-identical across policies: yes
`, "\n"), out.String())
	assert.EqualError(t, all.faults(), "policy color: failed, status 1\npolicy seda: no report: signal: killed")
}

func TestAMissingReportHasAReason(t *testing.T) {
	killed := errors.New("signal: killed")
	rows := []struct {
		name, stdout string
		end          error
		says         string
	}{
		{"killed", "", killed, "signal: killed"},
		{"killed in the middle of a word", `{"policy":`, killed, "signal: killed"},
		{"no output", "", nil, "no report"},
		{"failed with a report", `{"policy":"seda"}`, errors.New("exit status 1"), ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := readReport([]byte(row.stdout), row.end)
			if row.says == "" {
				require.NoError(t, err)
				assert.Equal(t, "seda", got.Policy)
				return
			}
			assert.ErrorContains(t, err, row.says)
		})
	}
}

func TestTheMemoryOfAPolicyIsItsOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it may be the memory of the parent process")
	}
	ballast := make([]byte, 256<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	done := newPlace(t).run(t.Context(), "-n", "3", "-json", "-policies", "fixed")
	require.Equal(t, show.StatusOK, done.status, done.stderr)
	assert.Less(t, done.report(t).PeakRSSBytes, uint64(len(ballast)))
	runtime.KeepAlive(ballast)
}

func TestAChildFollowsItsParentsOrders(t *testing.T) {
	in, orders := io.Pipe()
	heard, ended := make(chan string, 2), make(chan struct{})
	go func() {
		defer close(ended)
		followOrders(in, func() { heard <- "finish" }, func() { heard <- "abandon" })
	}()
	_, err := orders.Write([]byte("."))
	require.NoError(t, err)
	assert.Equal(t, "finish", <-heard)
	require.NoError(t, orders.Close())
	assert.Equal(t, "abandon", <-heard)
	<-ended
}

func TestAChildWithoutParentIsAbandoned(t *testing.T) {
	followOrders(strings.NewReader(""), func() { t.Error("there is no parent to finish for") }, func() {})
}
