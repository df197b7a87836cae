package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/internal/link"
)

// Drain asks a process of the fleet to stop taking work, and returns the error
// of its Options.Drain. The operator's name is for its journal and log. If no
// process of the name is there, or several are, or the process takes no orders,
// the error says so. Drain waits until ctx ends.
func (f *Fleet) Drain(ctx context.Context, process, operator string) error {
	link.CheckContext(ctx, "fleet: Drain")
	if err := f.drain(ctx, process, operator); err != nil {
		return fmt.Errorf("fleet %q: drain process %q: %w", f.pipeline, process, err)
	}
	return nil
}

func (f *Fleet) drain(ctx context.Context, process, who string) error {
	m, err := f.roster.find(process)
	if err != nil {
		return err
	}
	data, err := json.Marshal(order{ID: m.ID, Verb: drain, Who: who})
	if err != nil {
		return err
	}
	answer, err := f.nc.RequestWithContext(ctx, f.subjects.do, data)
	switch {
	case errors.Is(err, natsgo.ErrNoResponders):
		return errors.New("no process takes orders: is it of an older version?")
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return f.away(err)
	}
	var r receipt
	if err := json.Unmarshal(answer.Data, &r); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	if r.Err != "" {
		return errors.New(r.Err)
	}
	return nil
}

// errDraining refuses a second order.
var errDraining = errors.New("it is being drained already")

// obey carries out an order to this process.
func (f *Fleet) obey(m *natsgo.Msg) {
	var o order
	if f.p == nil || m.Reply == "" || json.Unmarshal(m.Data, &o) != nil || o.ID != f.self.ID {
		return
	}
	answer := func(err error) {
		r := receipt{}
		if err != nil {
			r.Err = textOf(err)
		}
		_ = f.send(m.Reply, r) // the operator is told that there is no answer
	}
	switch {
	case o.Verb != drain:
		answer(fmt.Errorf("it does not know the order %q", o.Verb))
	case f.o.Drain == nil:
		answer(errors.New("it takes no orders: set fleet.Options.Drain there"))
	case !f.draining.CompareAndSwap(false, true):
		answer(errDraining)
	default:
		go func() { // it may take long, and may end with Leave
			defer f.draining.Store(false)
			answer(f.drained(o.Who))
		}()
	}
}

// drained calls the program's function.
func (f *Fleet) drained(who string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("Options.Drain panicked: %v", v)
		}
	}()
	if len(who) > longestName {
		who = strings.ToValidUTF8(who[:longestName], "")
	}
	return f.o.Drain(f.stopped, who)
}

// Look returns the processes and inlets of [Fleet.Snapshot] for
// dashboard.NewFleet. The types are Golda's own: others call Snapshot.
func (f *Fleet) Look(ctx context.Context) (processes []link.FleetProcess, inlets []link.FleetInlet, err error) {
	s, err := f.Snapshot(ctx)
	for i := range s.Processes {
		p := &s.Processes[i]
		processes = append(processes, link.FleetProcess{
			Name: p.Name, Host: p.Host, PID: p.PID, State: string(p.State), Started: p.Started, Heard: p.Heard, Stages: p.Stages,
			ID: p.said.ID, Answers: p.said.Answers && p.State == Alive, Dead: p.letters.Dead, Quarantine: p.letters.Quarantine, Failures: p.letters.Failures,
			Snapshot: p.Snapshot, Err: p.Err,
		})
	}
	for _, i := range s.Inlets {
		inlets = append(inlets, link.FleetInlet{
			Name: i.Name, Stage: i.Stage, Published: i.Published, Done: i.Done(), Buried: i.Buried, Pending: i.Pending, InFlight: i.InFlight,
			Acknowledged: i.Acknowledged, Redeliveries: i.Redeliveries, OldestNs: int64(i.Age), Fill: i.Fill, Rate: i.Rate,
			Processes: i.Processes, Workers: i.Workers, WantedProcesses: i.WantedProcesses, WantedWorkers: i.WantedWorkers,
			Bottleneck: i.Bottleneck, Law: i.law(), Holds: i.balanced(),
		})
	}
	return processes, inlets, err
}

// Pipeline returns the name of the fleet's pipeline.
func (f *Fleet) Pipeline() string { return f.pipeline }
