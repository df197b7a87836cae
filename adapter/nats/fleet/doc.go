// Package fleet shows all processes that run a pipeline, from any of them:
// which stages run where, the lag of the inlets of adapter/nats, the workers,
// and how many processes an autoscaler should run.
//
//	f, err := fleet.Join(ctx, conn, p, fleet.Options{Name: os.Getenv("POD_NAME")})
//	…
//	defer f.Leave(context.Background())
//	s, err := f.Snapshot(ctx) // of all processes
//
// Any number of processes of one pipeline, by its name, join on one NATS server
// or cluster. They say on core NATS that they are there, and answer questions;
// nothing is stored. A process that leaves says so. One that is killed or
// stands still is lost after three beats, six seconds by default, and is back
// with the next one.
//
// # Autoscaling
//
// [NewExporter] exports the lag and the wanted processes, as metrics of
// Prometheus and as JSON for KEDA. docs/scaling.md has the manifests. The law
// is the law of the pipeline's default policy, over all processes: see [Inlet].
//
// dashboard.NewFleet of adapter/dashboard shows a fleet as a page, and golda ui
// and golda top do without a program. With Options.Drain a process lets
// operators of the fleet drain it: see [Fleet.Drain]. With Options.Dashboard it
// shows its letters, its journal, its keys and its windows there.
//
// # Cost
//
// A beat is a message of some hundred bytes to each process. A snapshot is a
// message to each process and its answer, of about two kilobytes for each
// stage, and three requests to the server for each inlet. A fleet has one
// goroutine.
//
// # Trust
//
// Every client that may publish to golda.fleet.> on the server is believed, and
// may read all that an Options.Dashboard shows without a token. Messages that
// cannot be read are dropped. Messages of other versions are read as far as
// possible.
package fleet
