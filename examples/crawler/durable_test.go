package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/show"
)

// killedEnv has the work of a child process.
const killedEnv = "GOLDA_CRAWLER_KILLED"

// life is the work of a child process: it kills itself with one of its requests.
type life struct {
	Dir      string
	Requests int64 // 0 means that it is not killed
}

// The site of the children: pages at fault, but none that is slow.
func faulty() *site {
	return &site{pages: 1500, links: 8, seed: 3, share: shares{flaky: 0.1, broken: 0.05}}
}

// killed is the main function of a child process.
func killed(work string) (status int) {
	var l life
	err := json.Unmarshal([]byte(work), &l)
	if err == nil {
		err = l.live(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (l life) live(ctx context.Context) error {
	s := faulty()
	base, stop, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	var requests atomic.Int64
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if requests.Add(1) == l.Requests {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			return nil, err
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	r, err := config{store: l.Dir, limit: time.Minute}.crawlIn(ctx, client, s, base, nil)
	if err != nil {
		return err
	}
	return r.report(os.Stdout, s, base, 0)
}

func TestACrawlerThatIsKilledGoesOnWhereItWas(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, requests := range []int64{1, 3, 50, 100, 200, 400, 0} {
		work, err := json.Marshal(life{dir, requests})
		require.NoError(t, err)
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), killedEnv+"="+string(work))
		var out, errs bytes.Buffer
		child.Stdout, child.Stderr = &out, &errs
		err = child.Run()
		if requests > 0 {
			require.EqualError(t, err, "signal: killed", errs.String())
			require.Empty(t, out.String())
			continue
		}
		require.NoError(t, err, errs.String()) // it compares what was read with a search of the site
		readable, failing := faulty().reachable()
		require.Contains(t, out.String(), fmt.Sprintf("\nread: %d\nfailed: %d\n", len(readable), len(failing)))
		require.Contains(t, out.String(), "balanced")
	}
}

func TestACrawlInAStoreFindsWhatAnotherOneFinds(t *testing.T) {
	for _, args := range []string{
		"-quiet -pages 300 -links 5 -flaky 0.2 -broken 0.1 -slow 0 -hanging 0", "-quiet -pages 1",
	} {
		in := args + " -store " + t.TempDir()
		for range 2 { // the second one has nothing left to do
			status, stdout, stderr := crawled(t, in)
			require.Equal(t, show.StatusOK, status, stderr)
			_, want, _ := crawled(t, args)
			line := func(text, prefix string) string {
				_, rest, _ := strings.Cut(text, "\n"+prefix)
				rest, _, _ = strings.Cut(rest, "\n")
				return rest
			}
			assert.Equal(t, line(want, "read:"), line(stdout, "read:"))
			assert.Equal(t, line(want, "failed:"), line(stdout, "failed:"))
		}
	}
}
