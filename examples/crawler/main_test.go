package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/twin"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(killedEnv); work != "" {
		os.Exit(killed(work))
	}
	crashing := func(f crawler) twin.Work {
		return func() error {
			s := &site{pages: 1000, links: 10, seed: 1}
			return follow(f, s, &http.Client{Transport: &unsound{}}, os.Stdout)
		}
	}
	twin.Main(map[string]twin.Work{"golda": crashing(crawl), "hand": crashing(byHand)})
	goleak.VerifyTestMain(m)
}

// crawler is crawl or its twin.
type crawler = func(ctx context.Context, c *http.Client, limit time.Duration, from *url.URL, progress io.Writer) (*result, error)

// follow crawls a site, and reports the result.
func follow(f crawler, s *site, client *http.Client, w io.Writer) error {
	defer client.CloseIdleConnections()
	base, stop, err := serve(context.Background(), s)
	if err != nil {
		return err
	}
	defer stop()
	r, err := f(context.Background(), client, time.Second, base.JoinPath(path(0)), nil)
	if err != nil {
		return err
	}
	return r.report(w, s, base, 0)
}

// unsound is a transport that panics with the first request for each of 1 % of the pages.
type unsound struct {
	http.Transport
	met sync.Map
}

func (u *unsound) RoundTrip(r *http.Request) (*http.Response, error) {
	page, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/page/"))
	if _, again := u.met.LoadOrStore(page, true); err == nil && page%100 == 50 && !again {
		panic("the transport crashed")
	}
	return u.Transport.RoundTrip(r)
}

func TestTheResultIsThatOfTheTwin(t *testing.T) {
	for name, s := range map[string]func() *site{
		"a sound site":   func() *site { return &site{pages: 2000, links: 10, seed: 1} },
		"a single page":  func() *site { return &site{pages: 1, links: 2, seed: 1} },
		"pages at fault": func() *site { return &site{pages: 500, links: 4, seed: 1, share: shares{flaky: 0.2, broken: 0.1}} },
	} {
		t.Run(name, func(t *testing.T) {
			var golda, hand strings.Builder
			require.NoError(t, follow(crawl, s(), new(http.Client), &golda))
			require.NoError(t, follow(byHand, s(), new(http.Client), &hand))
			withoutLaw, _, _ := strings.Cut(golda.String(), "law:")
			assert.Equal(t, strings.TrimSuffix(hand.String(), "law: \n"), withoutLaw)
		})
	}
}

func TestAnInterruptEndsTheCrawl(t *testing.T) {
	for name, f := range map[string]crawler{"golda": crawl, "by hand": byHand} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &site{pages: 1_000_000, links: 10, seed: 1}
		base, stop, err := serve(t.Context(), s)
		require.NoError(t, err)
		var requests atomic.Int64
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if requests.Add(1) == 100 {
				cancel()
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
		_, err = f(ctx, client, 100*time.Millisecond, base.JoinPath(path(0)), nil)
		require.ErrorIs(t, err, context.Canceled, name)
		stop()
		client.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheTable(t *testing.T) {
	golda, errs, status := twin.Child(t, "golda")
	require.Zero(t, status, errs)
	require.Contains(t, golda, "read: 1000\nfailed: 0\n")
	hand, errs, status := twin.Child(t, "hand")
	require.Equal(t, 2, status)
	require.Empty(t, hand)
	require.Contains(t, errs, "panic: the transport crashed")

	s := &site{pages: 5000, links: 40, seed: 1}
	base, stop, err := serve(t.Context(), s)
	require.NoError(t, err)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	work := func(f crawler) twin.Work {
		return func() error {
			_, err := f(t.Context(), client, time.Second, base.JoinPath(path(0)), nil)
			return err
		}
	}
	rows := twin.Code(t, "crawl.go", "twin_test.go", "durable.go", "main.go", "page.go", "result.go", "site.go")
	rows = append(rows, twin.Cost(t, "page", s.pages, work(crawl), work(byHand))...)
	twin.Check(t, append(rows, twin.Row{
		Name:  "1,000 pages, fetching 1 % of them panics once",
		Golda: "no page is lost",
		Hand:  "the process ends with status 2; no page is reported",
	}))
}

// crawled runs the program.
func crawled(t *testing.T, args string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

func TestEveryPageIsReadOnceOrFailsWithItsError(t *testing.T) {
	cases := map[string]string{
		"5,000 pages with 40 links":   "-quiet",
		"few links":                   "-quiet -pages 2000 -links 2",
		"half of the pages at fault":  "-quiet -pages 1000 -slow 0.1 -flaky 0.3 -broken 0.1 -hanging 0.005 -delay 10ms -limit 200ms",
		"a single page":               "-quiet -pages 1",
		"many links to the same page": "-quiet -pages 10 -links 2000",
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := crawled(t, args)
			require.Equal(t, show.StatusOK, status, stderr)
			assert.Empty(t, stderr)
			assert.Contains(t, stdout, "balanced")
			assert.NotContains(t, stdout, "NOT BALANCED")
		})
	}
}

func TestMissingAndRepeatedPagesAreReported(t *testing.T) {
	base, stop, err := serve(t.Context(), &site{pages: 1, links: 2})
	require.NoError(t, err)
	stop()
	at := func(page int) string { return base.JoinPath(path(page)).String() }
	require.NoError(t, compare("read", base, []int{0, 1}, map[string]int{at(0): 1, at(1): 1}))
	require.ErrorContains(t, compare("read", base, []int{0, 1}, map[string]int{at(0): 1}), "missing [\""+at(1)+"\"]")
	require.ErrorContains(t, compare("read", base, []int{0}, map[string]int{at(0): 2}), "more than once [\""+at(0)+"\"]")
	require.Error(t, compare("read", base, []int{0}, map[string]int{at(0): 1, at(1): 1}))
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, usage.In(t.Context(), run), map[string][2]string{
		"an unknown flag": {"-no", "crawler: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-pages 0 -links 1 -slow 2 -delay -1s -limit 0 x",
			"crawler: stray argument \"x\"; everything is set with flags, see -help; -pages 0: at least 1; -links 1: at least 2; " +
				"-slow 2: from 0 to 1; -slow, -flaky, -broken and -hanging: 2.071 in all, at most 1; -delay -1s: at least 0; -limit 0s: above 0\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) {
	usage.Help(t, usage.In(t.Context(), run), "crawler follows the links")
}
