package link

import "time"

// FleetProcess is one process of a pipeline, as package fleet of adapter/nats
// knows it.
type FleetProcess struct {
	Name, Host     string
	PID            int
	State          string // alive, silent, lost or left
	Started, Heard time.Time
	Stages         []string // that run there
	Snapshot       any      // a pipeline.Snapshot; the zero one if it is not known
	Err            error    // why it is not known

	ID                         string // of the process, until it ends
	Answers                    bool   // its dashboard can be read
	Dead, Quarantine, Failures int    // letters in its stores
}

// FleetInlet is an inlet of a fleet over all processes: fleet.Inlet, and whether
// its accounting law holds.
type FleetInlet struct {
	Name, Stage                                        string
	Published, Done, Buried, Pending, InFlight         uint64
	Acknowledged, Redeliveries                         uint64
	OldestNs                                           int64
	Fill, Rate                                         float64
	Processes, Workers, WantedProcesses, WantedWorkers int
	Bottleneck                                         string
	Law                                                string // with its numbers
	Holds                                              bool   // the law, as it does at rest
}
