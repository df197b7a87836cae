package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

type tapCommand struct {
	URL    string        `arg:"" help:"Of the dashboard."`
	Stage  []string      `arg:"" optional:"" help:"Without it, all stages."`
	Port   string        `help:"Only commands that are forwarded to this stage or port."`
	Result string        `help:"Only ok, forward, error or crash."`
	Text   string        `help:"Only commands whose text contains this."`
	Key    string        `help:"Only commands of this key, of keyed stages."`
	Share  float64       `default:"1" help:"The part of the commands that is shown."`
	Limit  int           `default:"1000" help:"Commands; then it ends."`
	For    time.Duration `default:"1m" help:"Then it ends."`
	Follow bool          `help:"One command, and all that results from it, through all stages."`
	JSON   bool          `name:"json" help:"Print JSON: an object for each command, and one with the counts."`
}

// errUnfinished says that a tap has ended with its program or its connection.
var errUnfinished = errors.New("the stream broke off: has the program ended?")

// Run prints commands as they are handled.
func (c *tapCommand) Run(s *session) error {
	last := api.Watched{}
	err := s.client(c.URL).Stream(s.ctx, "/tap?"+c.query().Encode(), func(event string, data []byte) error {
		if event != "seen" {
			return json.Unmarshal(data, &last)
		}
		var seen api.Seen
		if err := json.Unmarshal(data, &seen); err != nil {
			return err
		}
		return c.print(s, seen)
	})
	switch {
	case err != nil && s.ctx.Err() == nil:
		return err
	case c.JSON:
		err = json.NewEncoder(s.out).Encode(last)
	default:
		_, err = fmt.Fprintf(s.out, "%d shown of %d chosen and %d asked; %d missed\n", last.Shown, last.Matched, last.Asked, last.Dropped)
	}
	if err == nil && last.Ended == "" && s.ctx.Err() == nil {
		err = errUnfinished
	}
	return err
}

func (c *tapCommand) query() url.Values {
	q := url.Values{
		"stage": c.Stage, "share": {strconv.FormatFloat(c.Share, 'g', -1, 64)}, "limit": {strconv.Itoa(c.Limit)}, "for": {c.For.String()},
		"follow": {strconv.FormatBool(c.Follow)},
	}
	for name, v := range map[string]string{"port": c.Port, "result": c.Result, "text": c.Text, "key": c.Key} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

func (c *tapCommand) print(s *session, seen api.Seen) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(seen)
	}
	result := seen.Result
	switch result {
	case "forward":
		result = "to " + plain(seen.Next)
	case "error":
		result = "error: " + plain(seen.Error)
	}
	try := ""
	if seen.Attempt > 1 {
		try = fmt.Sprintf(" (try %d)", seen.Attempt)
	}
	_, err := fmt.Fprintf(s.out, "%s %s %s%s: %s after %v\n", seen.At.Local().Format("15:04:05.000"), plain(seen.Stage), plain(seen.Command), try, result,
		short(seen.TookNs))
	return err
}
