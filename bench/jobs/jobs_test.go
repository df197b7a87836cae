package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childWord { // the measurements start this program
		os.Exit(child(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// needsRedis skips a test of a system without its server, or fails it if that
// is required.
func needsRedis(t *testing.T, s system) {
	t.Helper()
	if !s.redis {
		return
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("GOLDA_BROKERS") == "required" {
			t.Fatal("there is no redis-server, and GOLDA_BROKERS is required: apt-get install redis-server")
		}
		t.Skip("there is no redis-server: apt-get install redis-server")
	}
}

func TestEachSystemDoesTheWorkForAMoment(t *testing.T) {
	for _, s := range systems() {
		t.Run(s.name, func(t *testing.T) {
			needsRedis(t, s)
			var stdout, stderr bytes.Buffer
			require.Equal(t, statusOK, run(t.Context(), []string{"-moment", "-system", s.name}, &stdout, &stderr), stderr.String())
			require.Contains(t, stdout.String(), s.name)
			require.Contains(t, stderr.String(), "1 kills")
			require.Contains(t, stderr.String(), "0 lost")
		})
	}
}

// What has a setting for a process that is gone does all jobs after a kill,
// however long that takes.
func TestAllJobsAreDoneThoughTheProcessIsKilled(t *testing.T) {
	for _, s := range []system{golda, mill} {
		t.Run(s.name, func(t *testing.T) {
			needsRedis(t, s)
			c := config{jobs: 400, kills: 3, atOnce: 16, inFlight: 2, patience: 3 * time.Minute}
			var m sample
			require.NoError(t, within(t.Context(), c, s, order{Jobs: c.jobs, Takes: killedJob}, func(p *part) error { return p.kills(t.Context(), &m) }))
			require.Equal(t, 3, m.kills)
			require.Zero(t, m.lost)
			require.Zero(t, m.waiting)
			require.Positive(t, m.killed)
		})
	}
}

func TestTheJournalCountsWhatWasDoneAndHowOften(t *testing.T) {
	dir := t.TempDir()
	j := journalIn(dir)
	require.NoError(t, j.update(), "no file yet")
	write := func(text string) {
		file, err := os.OpenFile(filepath.Join(dir, journalName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.NoError(t, j.update())
	}
	write("j0 1 2 1000\nu0 500 700 1500\nj1 1 2 20")
	require.Equal(t, map[string]int{"j0": 1, "u0": 1}, j.done, "a line that is not whole does not count")
	write("00\nj0 1 2 9000\n")
	require.Equal(t, map[string]int{"j0": 2, "u0": 1, "j1": 1}, j.done)
	require.Equal(t, 4, j.lines)
	require.Equal(t, time.Duration(1000), j.latest.Sub(j.first), "the second time of a job is no progress")
	require.Equal(t, []time.Duration{200}, j.waits)
}

func TestBadFlagsAreReportedInOneLine(t *testing.T) {
	for _, args := range [][]string{
		{"-system", "sidekiq"},
		{"-rounds", "0"},
		{"-jobs", "1"},
		{"-kills", "-1"},
		{"-moment", "-report", "x"},
		{"stray"},
		{"-none"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, statusUsage, run(t.Context(), args, &stdout, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
		require.Empty(t, stdout.String())
	}
	var help bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"-help"}, &help, nil))
	for _, s := range systems() {
		require.Contains(t, help.String(), s.name)
	}
}

func TestAReportReplacesItsFiguresAndNoOthers(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- figures -->\nstale\n<!-- end of figures -->\n"+
		"<!-- figures, synced -->\nkept\n<!-- end of figures, synced -->\n"), 0o600))
	s := newSuite(config{systems: systems(), rounds: 2, jobs: 1234}, nil)
	s.samples[golda.name] = []sample{{doneRate: 1000}, {doneRate: 3000, waiting: 2}}
	require.NoError(t, s.writeReport(page))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.NotContains(t, string(text), "stale")
	require.Contains(t, string(text), "2,000 (1,000–3,000)")
	require.Contains(t, string(text), "0, and 2 not done yet")
	require.Contains(t, string(text), "1234 jobs")
	require.Contains(t, string(text), "before\n")
	require.Contains(t, string(text), "kept")
	s.sync = true
	require.NoError(t, os.WriteFile(page, []byte("nothing"), 0o600))
	require.ErrorContains(t, s.writeReport(page), "figures, synced")
}

func TestThePageSaysHowEachSystemIsSetUp(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "jobs-compared.md"))
	require.NoError(t, err)
	for _, s := range systems() {
		for _, fact := range []string{s.name, s.durable[0], s.durable[1], s.gone} {
			require.Contains(t, string(text), fact)
		}
		for _, sync := range []bool{false, true} {
			_, _, place := figures(sync)
			require.Contains(t, place.FindString(string(text)), "| "+s.name+" |", "figures of the system")
		}
	}
}
