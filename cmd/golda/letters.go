package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

type lettersCommand struct {
	List   lettersList   `cmd:"" help:"List the causes of letters, or the letters of a store."`
	Show   lettersShow   `cmd:"" help:"Show a letter."`
	Retry  lettersRetry  `cmd:"" help:"Retry a letter; or those of a cause, one first, and the others if it does not fail."`
	Edit   lettersEdit   `cmd:"" help:"Retry a letter with another command."`
	Drop   lettersDrop   `cmd:"" help:"Drop letters for good."`
	Export lettersExport `cmd:"" help:"Write the letters of a store as lines of JSON."`
}

// chosen are letters of a store.
type chosen struct {
	URL         string `arg:"" help:"Of the dashboard."`
	Store       string `arg:"" enum:"dead,quarantine,failures" help:"dead, quarantine or failures."`
	ID          uint64 `arg:"" optional:"" help:"Of a letter."`
	Stage       string `help:"All letters of a stage."`
	Fingerprint string `help:"All letters of a cause."`
	All         bool   `help:"All letters of the store."`
}

func (c *chosen) action() api.Action {
	return api.Action{Store: c.Store, ID: c.ID, Stage: c.Stage, Fingerprint: c.Fingerprint, All: c.All}
}

// process is the process of a fleet that has letters.
type process struct {
	Process string `help:"Of a fleet: the process that has the letters."`
}

// query returns a part of a query.
func (p *process) query() string {
	if p.Process == "" {
		return ""
	}
	return "&process=" + url.QueryEscape(p.Process)
}

type lettersList struct {
	process

	URL   string `arg:"" help:"Of the dashboard."`
	Store string `arg:"" optional:"" help:"dead, quarantine or failures; without it, the causes in all of them."`
	JSON  bool   `name:"json"`
}

// Run lists letters.
func (c *lettersList) Run(s *session) error {
	if c.Store == "" {
		return c.causes(s)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "id\tat\tstage\treason\ttries\twaiting\terror")
	}
	for since := uint64(0); ; {
		var page api.Letters
		path := fmt.Sprintf("/letters?store=%s&limit=500&since=%d", url.QueryEscape(c.Store), since) + c.query()
		if err := s.client(c.URL).Get(s.ctx, path, &page); err != nil {
			return err
		}
		if len(page.Letters) == 0 {
			return w.Flush()
		}
		since = page.Last
		for _, l := range page.Letters {
			if c.JSON {
				if err := json.NewEncoder(s.out).Encode(l); err != nil {
					return err
				}
				continue
			}
			waiting := "-" // the key is not parked
			if l.Parked {
				waiting = strconv.Itoa(l.Waiting)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", l.N, l.At.Format(time.DateTime), stageOf(&l), plain(l.Reason), l.Attempt,
				waiting, plain(l.Error))
		}
	}
}

// stageOf names the stage of a letter, and of a fleet the process.
func stageOf(l *api.Letter) string {
	if l.Process == "" {
		return plain(l.Stage)
	}
	return plain(l.Stage) + " in " + plain(l.Process)
}

func (c *lettersList) causes(s *session) error {
	var f api.Failures
	if err := s.client(c.URL).Get(s.ctx, "/failures", &f); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(f.Groups)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "store\tstage\treason\tcount\tkept\tparked\tlast\tfingerprint\terror")
	for _, g := range f.Groups {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", g.Store, plain(g.Stage), plain(g.Reason), g.Count, g.Kept, g.Parked, g.Last.Format(time.DateTime),
			plain(g.Fingerprint), plain(g.Error))
	}
	return w.Flush()
}

type lettersShow struct {
	process

	URL   string `arg:"" help:"Of the dashboard."`
	Store string `arg:"" enum:"dead,quarantine,failures" help:"dead, quarantine or failures."`
	ID    uint64 `arg:"" help:"Of the letter."`
	JSON  bool   `name:"json"`
}

// Run shows a letter.
func (c *lettersShow) Run(s *session) error {
	if c.ID == 0 {
		return errors.New("letters have numbers from 1")
	}
	var page api.Letters
	path := "/letters?store=" + url.QueryEscape(c.Store) + "&limit=1&since=" + strconv.FormatUint(c.ID-1, 10) + c.query()
	if err := s.client(c.URL).Get(s.ctx, path, &page); err != nil {
		return err
	}
	if len(page.Letters) == 0 || page.Letters[0].N != c.ID {
		return fmt.Errorf("store %s has no letter %d", c.Store, c.ID)
	}
	l := page.Letters[0]
	if c.JSON {
		return json.NewEncoder(s.out).Encode(l)
	}
	fmt.Fprintf(s.out, "letter %d of stage %s, %s, %s, tried %d times\nerror: %s\ncommand: %s %s%s\n", l.N, stageOf(&l), l.At.Format(time.DateTime),
		plain(l.Reason), l.Attempt, plain(l.Error), plain(l.Type), plain(l.Summary), plain(l.Missing))
	if l.Parked {
		fmt.Fprintf(s.out, "its key is parked: %d later commands of the key wait until the letter is retried or dropped\n", l.Waiting)
	}
	if l.Stack != "" {
		for line := range strings.Lines(l.Stack) {
			tab := strings.HasPrefix(line, "\t")
			line = plain(strings.TrimSpace(line))
			if tab {
				line = "    " + line
			}
			fmt.Fprintln(s.out, line)
		}
	}
	return nil
}

type lettersRetry struct{ chosen }

// Run retries letters.
func (c *lettersRetry) Run(s *session) error {
	if c.ID != 0 {
		return s.act(c.URL, "retry", c.action())
	}
	return s.act(c.URL, "retryAll", c.action())
}

type lettersEdit struct {
	URL     string `arg:"" help:"Of the dashboard."`
	Store   string `arg:"" enum:"dead,quarantine,failures" help:"dead, quarantine or failures."`
	ID      uint64 `arg:"" help:"Of the letter."`
	Command string `arg:"" help:"The other command, as JSON."`
}

// Run retries a letter with another command.
func (c *lettersEdit) Run(s *session) error {
	if !json.Valid([]byte(c.Command)) {
		return errors.New("the command is not JSON")
	}
	return s.act(c.URL, "edit", api.Action{Store: c.Store, ID: c.ID, Command: json.RawMessage(c.Command)})
}

type lettersDrop struct{ chosen }

// Run drops letters.
func (c *lettersDrop) Run(s *session) error { return s.act(c.URL, "drop", c.action()) }

type lettersExport struct {
	URL   string `arg:"" help:"Of the dashboard."`
	Store string `arg:"" enum:"dead,quarantine,failures" help:"dead, quarantine or failures."`
}

// Run writes letters.
func (c *lettersExport) Run(s *session) error {
	body, err := s.client(c.URL).Open(s.ctx, "/actions/export?store="+url.QueryEscape(c.Store))
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(s.out, body)
	return err
}
