// Package api has the answers of /golda/v1, the HTTP API of package dashboard,
// as Go types, and its client.
//
// Names in JSON are in camelCase. A duration is a number of nanoseconds, and
// its name ends in Ns; a time is a string as RFC 3339 has it. A count is a total
// that only grows: a client subtracts an earlier one. The file openapi.yaml
// describes all routes.
package api

import (
	"encoding/json"
	"time"
)

// Root is the answer of GET /golda/v1.
type Root struct {
	Version  int       `json:"version"` // of the API
	Golda    string    `json:"golda"`   // the version of the module, as the program was built
	Pipeline string    `json:"pipeline"`
	Process  string    `json:"process"` // the name of the host and the number of the process
	Started  time.Time `json:"started"`
	ReadOnly bool      `json:"readOnly"` // actions are refused
	Payloads bool      `json:"payloads"` // letters have a summary of their command
	Recorded bool      `json:"recorded"` // the answers come from a recording
	Tap      bool      `json:"tap"`      // commands can be watched
	Fleet    bool      `json:"fleet"`    // the numbers are sums over processes
	Actions  []string  `json:"actions"`  // that are enabled
	Policies []string  `json:"policies"` // that the action policy knows
}

// Snapshot is a pipeline at one instant: pipeline.Snapshot as JSON. The stages,
// pools and feeds are members by their names, so that a merge patch names the
// one that changed.
type Snapshot struct {
	N          uint64    `json:"n"` // of the snapshot: later ones have larger numbers
	At         time.Time `json:"at"`
	Pipeline   string    `json:"pipeline"`
	Policy     string    `json:"policy"`
	CPUNs      int64     `json:"cpuNs"` // CPU time that the process has used, 0 if the system does not say
	Processors int       `json:"processors"`

	Accepted     uint64 `json:"accepted"`
	Replied      uint64 `json:"replied"`
	Failed       uint64 `json:"failed"`
	Shed         uint64 `json:"shed"`
	DeadLettered uint64 `json:"deadLettered"`
	InFlight     uint64 `json:"inFlight"`
	Answered     uint64 `json:"answered"`

	Order  []string         `json:"order"` // the names of the stages
	Stages map[string]Stage `json:"stages"`
	Pools  map[string]Pool  `json:"pools"`
	Feeds  map[string]Feed  `json:"feeds"`
}

// Stage is a stage in a [Snapshot]: stage.Snapshot as JSON.
type Stage struct {
	Process  string `json:"process"` // that runs it, empty if it is this one
	Version  string `json:"version"`
	Pool     string `json:"pool"`
	Paused   bool   `json:"paused"`
	Draining bool   `json:"draining"`
	Drained  bool   `json:"drained"`

	Queue   Queue             `json:"queue"`
	Workers Workers           `json:"workers"`
	Counts  Counts            `json:"counts"`
	Reasons map[string]uint64 `json:"reasons"` // how many were refused, shed and dead-lettered: "shed expired"
	Wait    Durations         `json:"wait"`    // of commands in the queue
	Service Durations         `json:"service"` // of commands in handlers
	Edges   []Edge            `json:"edges"`
}

// Queue is stats.Queue as JSON.
type Queue struct {
	Length      int   `json:"length"`
	Capacity    int   `json:"capacity"`
	OldestNs    int64 `json:"oldestNs"`
	Held        int   `json:"held"`
	InHand      int   `json:"inHand"`
	Suspended   int   `json:"suspended"`
	Delayed     int   `json:"delayed"`
	KeyCapacity int   `json:"keyCapacity"`
	Reserved    int   `json:"reserved"`
	Carried     int   `json:"carried"`
	Waiting     int   `json:"waiting"`
	Submitters  int   `json:"submitters"`
	Senders     int   `json:"senders"`
	RateKeys    int   `json:"rateKeys"`
	FairKeys    int   `json:"fairKeys"`
	FairMost    int   `json:"fairMost"`
	ParkedKeys  int   `json:"parkedKeys"` // keys whose commands wait for a letter
}

// Workers is stats.Workers as JSON. Least and Most are the bounds, and Peak is
// how many workers there have been at once.
type Workers struct {
	Live        int `json:"live"`
	Busy        int `json:"busy"`
	Blocked     int `json:"blocked"`
	Idle        int `json:"idle"`
	Least       int `json:"least"`
	Most        int `json:"most"`
	Peak        int `json:"peak"`
	Instances   int `json:"instances"`
	Keys        int `json:"keys"`
	KeptStates  int `json:"keptStates"`
	CrashStreak int `json:"crashStreak"`
	Stuck       int `json:"stuck"` // abandoned handlers that have not returned
}

// Counts is stats.Counts as JSON.
type Counts struct {
	Accepted       uint64 `json:"accepted"`
	Submitted      uint64 `json:"submitted"`
	Received       uint64 `json:"received"`
	Rejected       uint64 `json:"rejected"`
	OK             uint64 `json:"ok"`
	Forwarded      uint64 `json:"forwarded"`
	Errors         uint64 `json:"errors"`
	Shed           uint64 `json:"shed"`
	DeadLettered   uint64 `json:"deadLettered"`
	Emitted        uint64 `json:"emitted"`
	Crashes        uint64 `json:"crashes"`
	Stuck          uint64 `json:"stuck"`
	Retries        uint64 `json:"retries"`
	RetriesRefused uint64 `json:"retriesRefused"`
	Restarts       uint64 `json:"restarts"`
	Passivated     uint64 `json:"passivated"`
	Visits         uint64 `json:"visits"`
	EmptyVisits    uint64 `json:"emptyVisits"`
	BusyNs         int64  `json:"busyNs"`
	BlockedNs      int64  `json:"blockedNs"`
	IdleNs         int64  `json:"idleNs"`
	RateWaitNs     int64  `json:"rateWaitNs"`
}

// Durations is stats.Durations as JSON: a histogram. MaxNs is the bound of the
// highest bucket that has a sample.
type Durations struct {
	Count   uint64   `json:"count"`
	SumNs   int64    `json:"sumNs"` // an estimate, at most a sixteenth off
	P50Ns   int64    `json:"p50Ns"`
	P99Ns   int64    `json:"p99Ns"`
	MaxNs   int64    `json:"maxNs"`
	Buckets []Bucket `json:"buckets,omitempty"` // left out where [History] says so
}

// Bucket counts the samples that are longer than the bound of the bucket before
// it and at most UpToNs. It is written as [upToNs, count].
type Bucket struct {
	UpToNs int64
	Count  uint64
}

// MarshalJSON writes the bucket as an array of two numbers.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]uint64{uint64(b.UpToNs), b.Count})
}

// UnmarshalJSON reads an array of two numbers.
func (b *Bucket) UnmarshalJSON(text []byte) error {
	var pair [2]uint64
	err := json.Unmarshal(text, &pair)
	b.UpToNs, b.Count = int64(pair[0]), pair[1]
	return err
}

// Edge is a way to a next stage.
type Edge struct {
	To    string `json:"to"`
	Port  string `json:"port"` // empty if handlers take the way without declaring it
	Back  bool   `json:"back"` // it closes a loop
	Moved uint64 `json:"moved"`
}

// Pool is pipeline.Pool as JSON.
type Pool struct {
	Policy      string   `json:"policy"`
	Stages      []string `json:"stages"`
	Dispatch    string   `json:"dispatch"`
	Plan        string   `json:"plan"`
	Workers     int      `json:"workers"`
	Busy        int      `json:"busy"`
	Idle        int      `json:"idle"`
	Most        int      `json:"most"`
	Rounds      uint64   `json:"rounds"`
	Visits      uint64   `json:"visits"`
	EmptyVisits uint64   `json:"emptyVisits"`
}

// Feed is pipeline.FeedSnapshot as JSON.
type Feed struct {
	To         string `json:"to"`
	State      string `json:"state"` // waiting, running, away, restarting, exhausted, stopped or gave up
	Running    bool   `json:"running"`
	Ended      bool   `json:"ended"`
	Read       uint64 `json:"read"` // commands that were accepted
	Refused    uint64 `json:"refused"`
	Restarts   uint64 `json:"restarts"`
	Position   int64  `json:"position"`
	Total      int64  `json:"total"`
	Checkpoint int64  `json:"checkpoint"`
	Error      string `json:"error"`
}

// Graph is the answer of GET /golda/v1/graph.
type Graph struct {
	Stages []Node   `json:"stages"`
	Edges  []Flow   `json:"edges"`
	Feeds  []Source `json:"feeds"`
}

// Node is a stage of a [Graph].
type Node struct {
	Name    string `json:"name"`
	Takes   string `json:"takes"` // the type of its commands
	Group   string `json:"group"`
	Process string `json:"process"`
	Pool    string `json:"pool"`
	Keyed   bool   `json:"keyed"`
}

// Flow is an edge of a [Graph].
type Flow struct {
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
	Back bool   `json:"back"`
}

// Source is a feed of a [Graph].
type Source struct {
	Name string `json:"name"`
	To   string `json:"to"`
}

// Journal is the answer of GET /golda/v1/journal, and the data of the event
// journal: the changes with larger numbers than asked for, the oldest first.
type Journal struct {
	Last    uint64   `json:"last"` // the number of the newest change there is
	Changes []Change `json:"changes"`
}

// Change is controller.Change as JSON.
type Change struct {
	N      uint64    `json:"n"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // the policy, or "operator:" and a name
	Group  string    `json:"group"`
	What   string    `json:"what"` // the knob, or the operator's verb
	Stage  string    `json:"stage"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`

	Process string `json:"process"` // of a fleet: that made the change
}

// Letters is the answer of GET /golda/v1/letters.
type Letters struct {
	Store   string   `json:"store"`
	Last    uint64   `json:"last"` // since for the next page
	Total   int      `json:"total"`
	Letters []Letter `json:"letters"`
}

// Letter is letters.Letter as JSON.
type Letter struct {
	N           uint64    `json:"n"` // its ID
	At          time.Time `json:"at"`
	Stage       string    `json:"stage"`
	Reason      string    `json:"reason"`
	Error       string    `json:"error"`
	Fingerprint string    `json:"fingerprint"`
	Attempt     int       `json:"attempt"`
	Type        string    `json:"type"`            // of the command
	Command     any       `json:"command"`         // null unless payloads are shown and the command can be written as JSON
	Summary     string    `json:"summary"`         // of the command, if payloads are shown
	Missing     string    `json:"missing"`         // why there is no command
	Stack       string    `json:"stack,omitempty"` // where the handler crashed last
	Parked      bool      `json:"parked"`          // later commands of its key wait for it
	Waiting     int       `json:"waiting"`         // how many, if Parked
	Process     string    `json:"process"`         // of a fleet: that has the letter
}

// Failures is the answer of GET /golda/v1/failures: the letters of all stores
// by their causes, the most recently seen first.
type Failures struct {
	Groups []Failure `json:"groups"`
}

// Failure is letters.Group as JSON.
type Failure struct {
	Store       string    `json:"store"`
	Stage       string    `json:"stage"`
	Reason      string    `json:"reason"`
	Fingerprint string    `json:"fingerprint"`
	Error       string    `json:"error"`
	Count       uint64    `json:"count"`   // how many there have been
	Kept        int       `json:"kept"`    // how many of them are in the store
	Parked      int       `json:"parked"`  // of Kept, the letters that later commands of their keys wait for
	Waiting     int       `json:"waiting"` // how many commands wait for the Parked letters
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Stack       string    `json:"stack"`
	Sample      *Letter   `json:"sample"`    // the newest in the store; null if none is
	Processes   []string  `json:"processes"` // of a fleet: that have such letters
}

// Work is the answer of GET /golda/v1/workers.
type Work struct {
	Stages []StageWork `json:"stages"`
}

// StageWork has the workers of a stage that are at a batch, the longest first.
type StageWork struct {
	Name string `json:"name"`
	Busy []Busy `json:"busy"`
}

// Busy is a worker at a batch. The fields after Ns are empty unless the stacks
// were asked for.
type Busy struct {
	Since     time.Time `json:"since"`
	Ns        int64     `json:"ns"`
	Worker    int       `json:"worker"` // its rank in the list
	At        string    `json:"at"`     // the innermost call of the user's code
	Waits     string    `json:"waits"`  // what the handler waits for, if that is a stage
	Suspended bool      `json:"suspended"`
	Process   string    `json:"process"` // of a fleet: that has the worker
}

// Tree is the answer of GET /golda/v1/tree: a supervisor or a child of one.
type Tree struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"` // supervisor or child
	State      string     `json:"state"`
	Strategy   string     `json:"strategy"`
	Restarts   int        `json:"restarts"`
	Intensity  *Intensity `json:"intensity"` // null for a child that is no supervisor
	Since      *time.Time `json:"since"`
	Until      *time.Time `json:"until"` // when it may be started, if it pauses
	LastReason string     `json:"lastReason"`
	Detail     string     `json:"detail"`
	Children   []Tree     `json:"children"`
}

// Intensity is how many restarts a supervisor allows, and how many it has used.
type Intensity struct {
	Max      int   `json:"max"`
	WithinNs int64 `json:"withinNs"`
	Used     int   `json:"used"`
}

// Fleet is the answer of GET /golda/v1/processes, and the data of the event
// processes: the processes that run the pipeline, and the inlets that they share.
type Fleet struct {
	At        time.Time `json:"at"`
	Error     string    `json:"error"` // why not all is known
	Processes []Process `json:"processes"`
	Inlets    []Inlet   `json:"inlets"`
}

// Process is fleet.Process as JSON. The numbers of a process that is lost or has
// left are the last ones that are known.
type Process struct {
	Name     string    `json:"name"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	State    string    `json:"state"` // alive, silent, lost or left
	Started  time.Time `json:"started"`
	Heard    time.Time `json:"heard"`   // when it was heard of last
	Error    string    `json:"error"`   // why its numbers, or its letters and changes, are not known
	Answers  bool      `json:"answers"` // of a fleet: its letters and changes are shown
	Accepted uint64    `json:"accepted"`
	InFlight uint64    `json:"inFlight"`
	Stages   []Part    `json:"stages"` // that run there
}

// Part is a stage in one process.
type Part struct {
	Stage    string `json:"stage"`
	Workers  int    `json:"workers"`
	Busy     int    `json:"busy"`
	Most     int    `json:"most"`
	Queue    int    `json:"queue"`
	Capacity int    `json:"capacity"`
	Done     uint64 `json:"done"` // commands that ended well or were forwarded
	Errors   uint64 `json:"errors"`
	Crashes  uint64 `json:"crashes"`
}

// Inlet is fleet.Inlet as JSON.
type Inlet struct {
	Name            string  `json:"name"`
	Stage           string  `json:"stage"`
	Published       uint64  `json:"published"`
	Done            uint64  `json:"done"`
	Buried          uint64  `json:"buried"`  // messages that have become dead letters
	Pending         uint64  `json:"pending"` // messages that are not done: the lag
	InFlight        uint64  `json:"inFlight"`
	Acknowledged    uint64  `json:"acknowledged"`
	Redeliveries    uint64  `json:"redeliveries"`
	OldestNs        int64   `json:"oldestNs"`
	Fill            float64 `json:"fill"`
	Rate            float64 `json:"rate"`
	Processes       int     `json:"processes"`
	Workers         int     `json:"workers"`
	WantedProcesses int     `json:"wantedProcesses"`
	WantedWorkers   int     `json:"wantedWorkers"`
	Bottleneck      string  `json:"bottleneck"`
	Law             string  `json:"law"`   // of accounting, with its numbers
	Holds           bool    `json:"holds"` // the law; it need not while messages are acknowledged
}

// Verdicts is the answer of GET /golda/v1/verdict: the limits of the pipeline now
// and a minute ago, null if that is not known.
type Verdicts struct {
	Now    Verdict  `json:"now"`
	Before *Verdict `json:"before"`
}

// Verdict is bottleneck.Verdict as JSON.
type Verdict struct {
	Stage  string   `json:"stage"` // empty if no stage limits the pipeline
	Limit  string   `json:"limit"`
	Use    float64  `json:"use"`
	Gain   float64  `json:"gain"`
	Blocks []string `json:"blocks"`
	Text   string   `json:"text"`
	OverNs int64    `json:"overNs"`      // the interval that it is about
	N      uint64   `json:"n,omitempty"` // in a History: of the snapshot at the end of the interval
}

// History is the answer of GET /golda/v1/history: snapshots of the last ten
// minutes, the oldest first. A large pipeline has fewer of them. Only the first
// one, every sixtieth one and the last one have the buckets of durations.
type History struct {
	EveryNs   int64      `json:"everyNs"`
	Snapshots []Snapshot `json:"snapshots"`
	Verdicts  []Verdict  `json:"verdicts"` // the oldest first; a verdict like the one before is left out
}

// Recording is the answer of GET /golda/v1/recording: all that can be read of
// a pipeline, in one file.
type Recording struct {
	Root     Root     `json:"root"`
	Graph    Graph    `json:"graph"`
	History  History  `json:"history"`
	Journal  Journal  `json:"journal"`
	Failures Failures `json:"failures"`
	Work     Work     `json:"workers"`
	Tree     Tree     `json:"tree"`
	Verdicts Verdicts `json:"verdict"`

	Processes *Fleet `json:"processes,omitempty"` // files of older versions have none
}

// Base is the data of the event base: a snapshot that deltas build on.
type Base struct {
	N        uint64   `json:"n"`
	Snapshot Snapshot `json:"snapshot"`
}

// Delta is the data of the event delta: a merge patch (RFC 7396) that makes
// snapshot N of snapshot Base.
type Delta struct {
	N     uint64          `json:"n"`
	Base  uint64          `json:"base"`
	Patch json.RawMessage `json:"patch"`
}

// Count is the data of the event failures: how many letters the stores have.
type Count struct {
	Count      int `json:"count"`
	Dead       int `json:"dead"`
	Quarantine int `json:"quarantine"`
	Failures   int `json:"failures"`
}

// Seen is the data of the event seen of GET /golda/v1/tap: tap.Event as JSON,
// one try of one command.
type Seen struct {
	At      time.Time `json:"at"` // when the handler was called
	Stage   string    `json:"stage"`
	Command string    `json:"command"` // its type, or its text if payloads are shown
	Attempt int       `json:"attempt"` // 1 for the first try
	TookNs  int64     `json:"tookNs"`  // in the handler; of a batch, the time of all of it
	Batch   int       `json:"batch"`   // commands that the handler was given at once
	Result  string    `json:"result"`  // ok, forward, error or crash
	Next    string    `json:"next"`    // stage or port that the command was forwarded to
	Error   string    `json:"error"`
}

// Watched is the data of the events counts and end of GET /golda/v1/tap:
// tap.Counts as JSON.
type Watched struct {
	Asked   uint64 `json:"asked"`   // tries of commands of the watched stages
	Matched uint64 `json:"matched"` // of Asked, the tries that were chosen before their results were known
	Dropped uint64 `json:"dropped"` // of Matched, the tries that the client was too slow for
	Shown   uint64 `json:"shown"`   // events
	Ended   string `json:"ended"`   // why the tap has ended; empty while it goes on
}

// Action is the body of POST /golda/v1/actions/{verb}. Each verb has its
// members; the others are left out.
type Action struct {
	Who         string          `json:"who,omitempty"`         // asks, for the journal
	Stage       string          `json:"stage,omitempty"`       // of all verbs but policy; of letters, all of this stage
	Process     string          `json:"process,omitempty"`     // drainProcess
	Group       string          `json:"group,omitempty"`       // in place of a stage: drain, reopen, resize
	All         bool            `json:"all,omitempty"`         // drain, reopen, retryAll, drop: no stage and no cause is meant
	Fewest      int             `json:"fewest,omitempty"`      // resize; 0 and 0 are the declared ones
	Most        int             `json:"most,omitempty"`        // resize
	PerSecond   float64         `json:"perSecond,omitempty"`   // rate; 0 gives it back to the policy
	Burst       int             `json:"burst,omitempty"`       // rate
	Slots       int             `json:"slots,omitempty"`       // capacity; 0 is the declared one
	Name        string          `json:"name,omitempty"`        // policy; race: the only one to race against
	ForNs       int64           `json:"forNs,omitempty"`       // policy; 0 is for good. Race: how long to record; 0 is a minute
	WithinNs    int64           `json:"withinNs,omitempty"`    // race: the time in which answers are of use
	Store       string          `json:"store,omitempty"`       // of letters: dead, quarantine or failures
	ID          uint64          `json:"id,omitempty"`          // retry, edit, drop: the number of a letter
	Fingerprint string          `json:"fingerprint,omitempty"` // retryAll, drop: all letters of this cause
	Reason      string          `json:"reason,omitempty"`      // retryAll, drop: only these
	Command     json.RawMessage `json:"command,omitempty"`     // edit
}

// Done is the answer to an action.
type Done struct {
	N     uint64 `json:"n"`     // the number of the entry in the journal
	Count int    `json:"count"` // of letters that were retried or dropped
	Text  string `json:"text"`  // the action in words
}

// Problem is the body of an answer that is an error, as RFC 9457 defines it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Error returns the title with the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}
