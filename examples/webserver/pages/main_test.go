package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/webserver/pages/chapter5"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a server that runs in a test.
type served struct {
	addr   string
	cancel context.CancelFunc
	status chan int
	out    bytes.Buffer
}

// serving starts the program, and waits until it says where it serves.
func serving(t *testing.T, args string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{cancel: cancel, status: make(chan int, 1)}
	from, to := io.Pipe()
	go func() {
		s.status <- run(ctx, strings.Fields("-addr 127.0.0.1:0 -json "+args), &s.out, to)
		_ = to.Close()
	}()
	lines := bufio.NewReader(from)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until the program closes it
	at := regexp.MustCompile(`http://(\S+) `).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	s.addr = at[1]
	return s
}

// get requests a page on a connection of its own.
func (s *served) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.addr + path)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// stop ends the program and returns its report.
func (s *served) stop(t *testing.T) (r report) {
	t.Helper()
	s.cancel()
	require.Equal(t, show.StatusOK, <-s.status)
	require.NoError(t, json.Unmarshal(s.out.Bytes(), &r))
	return r
}

func TestEachRequestNeedsBothPages(t *testing.T) {
	for _, policy := range []string{"backlog", "seda:cruz", "cohort", "lrb:cruz", "srpt", "-pool 2 -policy dbr", "-instances 1 -policy color"} {
		t.Run(policy, func(t *testing.T) {
			args := policy
			if !strings.HasPrefix(policy, "-") {
				args = "-policy " + policy
			}
			s := serving(t, "-rows 3 -columns 4 "+args)
			for range 20 {
				status, body := s.get(t, "/index")
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, "you asked for /index\nthe sum is -6\n", body)
			}
			r := s.stop(t)
			require.EqualValues(t, 20, r.Sent)
			require.Zero(t, r.Bad+r.Failed)
			handled := map[string]uint64{}
			for _, st := range r.Stages {
				handled[st.Name] = st.Handled
			}
			require.Equal(t, map[string]uint64{"start": 20, "parse": 20, "dynamic": 20, "static": 20, "send": 40}, handled)
		})
	}
}

func TestTheDynamicPageIsTheAdditionsOfTheDissertation(t *testing.T) {
	c, err := parseFlags(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2001*10001, c.Rows*c.Columns)
	sum := 0 // of i - j, for i from 0 to 2000 and j from 10000 to 0
	for i := 0; i <= 2000; i++ {
		sum += i*10001 - 10000*10001/2
	}
	require.Equal(t, sum, chapter5.Added(c.Rows, c.Columns))
}

func TestWhatIsNoRequestIsAnsweredAndCounted(t *testing.T) {
	s := serving(t, "-rows 1 -columns 1")
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	_, err = io.WriteString(c, "nonsense\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Contains(t, string(answer), "HTTP/1.1 400 Bad Request")
	require.EqualValues(t, 1, s.stop(t).Bad)
}

func TestWrongFlagsAreRefusedTogether(t *testing.T) {
	var out, complaint bytes.Buffer
	status := run(t.Context(), strings.Fields("-workers 0 -pool -1 -instances -1 -rows 0 -columns 0 -policy love"), &out, &complaint)
	require.Equal(t, show.StatusUsage, status)
	for _, fault := range []string{"-workers 0", "-pool -1", "-instances -1", "-rows 0", "-columns 0", `unknown policy "love"`} {
		require.Contains(t, complaint.String(), fault)
	}
}
