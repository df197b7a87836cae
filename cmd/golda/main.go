// Command golda shows and operates pipelines whose programs serve a dashboard
// (package adapter/dashboard): see docs/dashboard.md.
//
//	golda top http://localhost:8077
//	golda tap http://localhost:8077 resize -result error
//	golda letters list http://localhost:8077 failures
//	golda race http://localhost:8077 -within 200ms
//	golda pause http://localhost:8077 resize
//	golda record http://localhost:8077 outage.json -for 1m
//	golda open outage.json
//	golda ui -url http://shop.internal:8077
//	golda ui -nats nats://localhost:4222 -pipeline shop
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// commands are the commands with their arguments.
type commands struct {
	Token string `env:"GOLDA_TOKEN" help:"Token of the dashboard, for actions."`
	Who   string `env:"USER" help:"Your name, for the journal."`

	Top     topCommand     `cmd:"" help:"Show the stages, refreshed."`
	UI      uiCommand      `cmd:"" name:"ui" help:"Serve the page of a dashboard that runs elsewhere, or of all processes of a pipeline."`
	Tap     tapCommand     `cmd:"" help:"Print commands as they are handled."`
	Letters lettersCommand `cmd:"" help:"List, show, retry, drop and export letters."`
	Record  recordCommand  `cmd:"" help:"Record a pipeline into a file."`
	Open    openCommand    `cmd:"" help:"Show a recording as a page."`
	Verdict verdictCommand `cmd:"" help:"Say which stage limits the pipeline, and which fail."`

	Completion completionCommand `cmd:"" help:"Print the script by which a shell completes commands."`
	Complete   completeCommand   `cmd:"" hidden:"" help:"Print the words that may follow others."`

	Race     raceCommand     `cmd:"" help:"Say which policy suits the pipeline: record it, and replay its load under others."`
	Pause    stageCommand    `cmd:"" help:"Stop workers from taking commands from a stage's queue."`
	Resume   stageCommand    `cmd:"" help:"End a pause."`
	Drain    drainCommand    `cmd:"" help:"Close a stage to commands from outside, and wait until it is empty."`
	Reopen   drainCommand    `cmd:"" help:"End a drain."`
	Resize   resizeCommand   `cmd:"" help:"Bound the workers of a stage or a group."`
	Rate     rateCommand     `cmd:"" help:"Hold the rate at which a stage, or the pipeline, admits commands."`
	Capacity capacityCommand `cmd:"" help:"Hold the capacity of a stage's queue."`
	Vet      vetCommand      `cmd:"" help:"Report mistakes in the code of a program with Golda."`
	Policy   policyCommand   `cmd:"" help:"Replace the policy, for a time."`
}

// session has the values that all commands use.
type session struct {
	ctx    context.Context
	out    io.Writer
	common *commands
	verb   string // the command that was given
}

func (s *session) client(url string) *api.Client { return &api.Client{URL: url, Token: s.common.Token} }

// act asks for an action and prints the answer.
func (s *session) act(url, verb string, a api.Action) error {
	a.Who = s.common.Who
	d, err := s.client(url).Act(s.ctx, verb, a)
	if err == nil {
		_, err = fmt.Fprintln(s.out, d.Text)
	}
	return err
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errExit ends kong where it would end the process.
var errExit = errors.New("exit")

// run carries out a command line and returns the status: 0, 1 if the command
// failed, or 2 if it is wrong.
func run(ctx context.Context, args []string, out, errs io.Writer) (status int) {
	defer func() {
		if r := recover(); r != nil {
			if r != errExit { //nolint:errorlint // it is the value itself
				panic(r)
			}
		}
	}()
	var all commands
	parser, err := kong.New(&all, kong.Name("golda"), kong.Description("Show and operate pipelines that serve a dashboard."),
		kong.Writers(out, errs), kong.Exit(func(code int) { status = code; panic(errExit) }), kong.UsageOnError())
	if err != nil {
		panic(err) // a mistake in the type commands
	}
	line, err := parser.Parse(dashed(args))
	if err != nil {
		fmt.Fprintf(errs, "golda: %v\nTry: golda --help\n", err)
		return 2
	}
	err = line.Run(&session{ctx: ctx, out: out, common: &all, verb: line.Selected().Name})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(errs, "golda: %v\n", err)
		return 1
	}
	return 0
}

// dashed returns arguments with two dashes before each long option. Users may
// write one, as for other programs in Go.
func dashed(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] >= 'a' && a[1] <= 'z' {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}

type stageCommand struct {
	URL   string `arg:"" help:"Of the dashboard."`
	Stage string `arg:""`
}

// Run pauses or resumes a stage.
func (c *stageCommand) Run(s *session) error {
	return s.act(c.URL, s.verb, api.Action{Stage: c.Stage})
}

type drainCommand struct {
	URL     string `arg:"" help:"Of the dashboard."`
	Stage   string `arg:"" optional:""`
	Group   string `help:"All stages of a group."`
	Process string `help:"Of a fleet: one process, which takes no further work."`
	All     bool   `help:"The whole pipeline."`
}

// Run drains or reopens stages, or drains a process.
func (c *drainCommand) Run(s *session) error {
	if c.Process != "" && s.verb == "drain" {
		return s.act(c.URL, "drainProcess", api.Action{Process: c.Process})
	}
	return s.act(c.URL, s.verb, api.Action{Stage: c.Stage, Group: c.Group, All: c.All})
}

type resizeCommand struct {
	URL    string `arg:"" help:"Of the dashboard."`
	Name   string `arg:"" help:"Of a stage or a group."`
	Fewest int    `arg:"" optional:"" help:"Workers; without it as many as declared."`
	Most   int    `arg:"" optional:"" help:"Workers; without it as many as the fewest."`
}

// Run bounds workers.
func (c *resizeCommand) Run(s *session) error {
	return s.act(c.URL, "resize", api.Action{Stage: c.Name, Fewest: c.Fewest, Most: cmp.Or(c.Most, c.Fewest)})
}

type rateCommand struct {
	URL       string  `arg:"" help:"Of the dashboard."`
	PerSecond float64 `arg:"" help:"Commands a second; 0 gives the rate back to the policy."`
	Stage     string  `help:"Without it, the whole pipeline."`
	Burst     int     `help:"So many at once after an idle time."`
}

// Run holds a rate.
func (c *rateCommand) Run(s *session) error {
	return s.act(c.URL, "rate", api.Action{Stage: c.Stage, PerSecond: c.PerSecond, Burst: c.Burst})
}

type capacityCommand struct {
	URL   string `arg:"" help:"Of the dashboard."`
	Stage string `arg:""`
	Slots int    `arg:"" help:"0 is the capacity of the options."`
}

// Run holds a capacity.
func (c *capacityCommand) Run(s *session) error {
	return s.act(c.URL, "capacity", api.Action{Stage: c.Stage, Slots: c.Slots})
}

type policyCommand struct {
	URL  string        `arg:"" help:"Of the dashboard."`
	Name string        `arg:"" help:"Such as backlog or seda:cruz: see docs/policies.md."`
	For  time.Duration `help:"Then back; without it, for good."`
}

// Run replaces the policy.
func (c *policyCommand) Run(s *session) error {
	return s.act(c.URL, "policy", api.Action{Name: c.Name, ForNs: int64(c.For)})
}

type raceCommand struct {
	URL    string        `arg:"" help:"Of the dashboard."`
	For    time.Duration `default:"1m" help:"How long to record."`
	Within time.Duration `help:"The time in which answers are of use; without it, the time of the pipeline's objective."`
	Policy string        `help:"The only policy to race against."`
}

// Run prints the report of a race.
func (c *raceCommand) Run(s *session) error {
	return s.act(c.URL, "race", api.Action{Name: c.Policy, ForNs: int64(c.For), WithinNs: int64(c.Within)})
}
