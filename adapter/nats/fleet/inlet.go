package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/controller/policy"
)

// Inlet is the state of an inlet over all processes: its lag, and how many
// workers and processes that asks for.
//
// # The law of workers
//
// The number of wanted workers follows the pipeline's default policy,
// [policy.Backlog], without the bounds of the processes: the stream is the
// queue, and the workers of all processes are the workers. A message makes work
// at each stage that it comes to, so for the workers of a stage, or of a shared
// pool,
//
//	demand         = busy workers / messages done a second
//	wanted workers = max(waiting · demand / Target, workers · 2 · fill, busy workers / Utilization), rounded up
//	wanted processes = wanted workers / workers of a process, rounded up
//
// The demand, the time that a message takes of the workers on its whole way, is
// the service demand law of queueing networks (Denning and Buzen, "The
// Operational Analysis of Queueing Network Models", 1978). The first term of
// the maximum is the acceptable backlog for each worker of cloud autoscalers
// ("Scaling based on Amazon SQS", AWS, 2018), the second counts for streams
// with a limit only, and the third keeps the workers that the present load
// needs when no message waits. Measurements are averages over the last 15
// beats, or half a minute.
//
// The stage that asks for the most processes is the Bottleneck, whose numbers
// these are. The workers of a process are the most that it may have. If they
// are all busy and have not become more for two beats, more do not help, and it
// is what there are.
//
// Workers that compute share the CPUs of their process, however many workers
// there are. If the CPUs ask for more processes than any stage, Bottleneck is
// "CPUs". The law for them has CPUs in place of workers, and the third term
// alone:
//
//	wanted processes = busy CPUs / Utilization / CPUs of a process, rounded up
//
// where a process has GOMAXPROCS CPUs. Busy ones are measured as the CPU time
// of the process, of which at most as much counts as handlers have run for.
// Systems other than Unix do not say it: there give a stage that computes no
// more workers than CPUs.
//
// While no message was done the demand is not known, and the law wants the
// workers that there are; if no process feeds a stage from the inlet, it wants
// one process as soon as a message is there.
//
// [policy.Backlog]:
// https://pkg.go.dev/github.com/golda-dev/golda/controller/policy#Backlog
type Inlet struct {
	nats.Status

	Name  string
	Stage string // that it feeds; empty if no process does that now

	// Acknowledged is how many messages the processes say that they have
	// acknowledged. For processes that are gone it is the last known number.
	// Redeliveries is how often the server has delivered a message again to the
	// processes.
	Acknowledged, Redeliveries uint64

	Rate            float64 // messages a second that are done
	Processes       int     // that feed a stage with it
	Bottleneck      string  // the stage, the pool of stages, or the CPUs, that asks for the most processes
	Workers         int     // of the bottleneck, in all processes
	WantedWorkers   int
	WantedProcesses int
}

// Done returns how many messages the server says are done: published, and
// neither pending nor dead letters.
func (i Inlet) Done() uint64 {
	return uint64(max(int64(i.Published)-int64(i.Buried)-int64(i.Pending), 0))
}

// Unreported returns how many messages are done that no process says it has
// acknowledged: processes that are gone have done so after they were heard of
// last, or that are forgotten.
func (i Inlet) Unreported() uint64 { return i.Done() - min(i.Done(), i.Acknowledged) }

// Balanced reports whether the accounting law holds for all inlets. It does at
// rest, when nothing is published or acknowledged:
//
//	published = done + buried + pending
//	acknowledged <= done + redeliveries + in flight
//
// The first has what the server knows, the second what the processes say: a
// message is acknowledged once for each delivery at most.
func (s Snapshot) Balanced() bool {
	return !slices.ContainsFunc(s.Inlets, func(i Inlet) bool { return !i.balanced() })
}

func (i Inlet) balanced() bool {
	return i.Published == i.Done()+i.Buried+i.Pending && i.Acknowledged <= i.Done()+i.Redeliveries+i.InFlight
}

// Law returns the law of each inlet with its numbers, a line for each.
func (s Snapshot) Law() string {
	var text []byte
	for _, i := range s.Inlets {
		text = fmt.Appendf(text, "%s: %s\n", i.Name, i.law())
	}
	return string(text)
}

// law returns the law with its numbers.
func (i Inlet) law() string {
	return fmt.Sprintf("published %d = done %d + dead-lettered %d + pending %d, of which %d are in flight; acknowledged %d, delivered again %d",
		i.Published, i.Done(), i.Buried, i.Pending, i.InFlight, i.Acknowledged, i.Redeliveries)
}

// newInlet joins what the server and the processes say of an inlet.
func newInlet(name string, status nats.Status, processes []Process, law policy.Backlog) Inlet {
	i := Inlet{Name: name, Status: status}
	var live []announcement
	rates := map[string]float64{} // of all inlets
	for n := range processes {
		p := &processes[n]
		working := p.State == Alive || p.State == Silent
		for _, l := range p.said.Inlets {
			if working {
				rates[l.Name] += sane(l.Rate)
			}
			if l.Name != name {
				continue
			}
			i.Acknowledged += l.Counts.Acknowledged
			i.Redeliveries += l.Counts.Redelivered
			if working && l.Stage != "" {
				i.Stage = l.Stage
				i.Processes++
				live = append(live, p.said)
			}
		}
	}
	i.Rate = rates[name]
	i.scale(live, rates, law)
	return i
}

// sum is what a unit has in all processes that feed an inlet.
type sum struct {
	processes, workers, most int
	busy                     float64
	inlets                   []string
}

// scale finds the bottleneck among the units of processes, and how many workers
// and processes it wants.
func (i *Inlet) scale(live []announcement, rates map[string]float64, law policy.Backlog) {
	if len(live) == 0 {
		i.WantedWorkers, _ = law.Wanted(policy.Lag{Pending: i.Pending})
		i.WantedProcesses = i.WantedWorkers
		return
	}
	sums := map[string]*sum{}
	var names []string
	for _, a := range live {
		for _, u := range a.Units {
			if !slices.Contains(u.Inlets, i.Name) {
				continue
			}
			c := sums[u.Name]
			if c == nil {
				c = &sum{inlets: u.Inlets}
				sums[u.Name] = c
				names = append(names, u.Name)
			}
			c.processes++
			c.workers += max(u.Workers, 0)
			c.most += max(u.Most, 1)
			c.busy += sane(u.Busy)
		}
	}
	worst := -1.0
	for _, name := range names {
		c := sums[name]
		wanted, share := law.Wanted(c.lag(i, rates))
		if share <= worst {
			continue
		}
		worst = share
		i.Bottleneck, i.Workers, i.WantedWorkers, i.WantedProcesses = name, c.workers, wanted, rounded(share)
	}
	cpus := computing(live)
	if cpus.Processes == 0 {
		return
	}
	if wanted, share := law.Wanted(cpus); rounded(share) > i.WantedProcesses {
		i.Bottleneck, i.Workers, i.WantedWorkers, i.WantedProcesses = "CPUs", cpus.Workers, wanted, rounded(share)
	}
}

// rounded rounds up to a number of processes.
func rounded(processes float64) int { return int(math.Ceil(min(processes, math.MaxInt32))) }

// computing returns what the law asks about the CPUs of processes. CPUs have no
// queue of their own: waiting messages are counted for the stages.
func computing(live []announcement) (l policy.Lag) {
	for _, a := range live {
		if a.CPUs.Most > 0 {
			l.Processes++
			l.Workers += a.CPUs.Most
			l.Busy += sane(a.CPUs.Busy)
		}
	}
	l.Most = l.Workers
	return l
}

// lag returns what the law asks about a unit.
func (c *sum) lag(i *Inlet, rates map[string]float64) policy.Lag {
	rate := 0.0
	for _, inlet := range c.inlets {
		rate += rates[inlet]
	}
	return policy.Lag{
		Pending: i.Pending, Fill: i.Fill, Rate: rate,
		Processes: c.processes, Workers: c.workers, Most: c.most, Busy: c.busy,
	}
}

// sane returns a number that another process has sent, or 0 if it is none that
// can be.
func sane(n float64) float64 {
	if !(n > 0) || n > math.MaxInt32 {
		return 0
	}
	return n
}
