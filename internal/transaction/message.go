package transaction

import (
	"cmp"

	"github.com/golda-dev/golda/coordination/guard"
)

// ID identifies a transaction, and says how old it is. Counter is the number of
// transactions that the process has committed, so it grows with a commit only,
// and a process that has to try again keeps its place.
type ID struct {
	Counter     uint64
	Process     string
	Incarnation uint64
}

// Before reports whether a transaction is older than another one: the older one
// waits, and the younger one is aborted.
func (a ID) Before(b ID) bool {
	return cmp.Or(cmp.Compare(a.Counter, b.Counter), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Incarnation, b.Incarnation)) < 0
}

// Kind is the kind of a message.
type Kind uint8

const (
	// Install is of a synchronizer: it lists the methods that it coordinates.
	// The process answers with Installed. A second one of the same epoch says
	// that the synchronizer has taken the process for dead. One without methods
	// says that the synchronizer has ended for good, or has no rules for the
	// process any more; it has no answer.
	Install Kind = iota + 1
	// Installed is of a process: it has the counters of all methods that were
	// listed.
	Installed
	// Join is of a process that has taken its synchronizer for dead: it asks
	// for Install. If there is nothing to install for it the answer is an
	// Install without methods, of the epoch that it asks with: so the rules of
	// a later epoch stay.
	Join
	// Verify is of a process: it asks whether a request may run.
	Verify
	// OK says that it may. The synchronizer is locked until it hears Commit or
	// Release.
	OK
	// Failed says that it may not. The synchronizer is not locked. It sends
	// Notify when it would answer otherwise.
	Failed
	// Aborted says that an older transaction has the lock. The synchronizer
	// sends Retry when it is free.
	Aborted
	// Commit is of a process: it says that all synchronizers have agreed, and
	// the request runs.
	Commit
	// Release is of a process: it gives an attempt up, whatever its state is.
	Release
	// Notify says that a request that failed may be verified again.
	Notify
	// Retry says that an attempt that was aborted may be made again.
	Retry
	// Completed is of a process: it says that a request has ended.
	Completed
	// Withdraw is of a process: it says that a request that failed is not
	// waiting any longer.
	Withdraw
	// Ask is of a synchronizer whose lock a dead process has: it asks another
	// one of the transaction how it ended.
	Ask
	// Committed answers Ask: the request runs, or has run.
	Committed
	// NotCommitted answers Ask: the request does not run.
	NotCommitted

	// Offer is of a process: it says that a request waits whose method has an
	// atomic rule.
	Offer
	// NotMine says that no rule of the synchronizer is about the request.
	NotMine
	// Lock asks a process to run nothing until it hears Do or Unlock, if the
	// request can run now.
	Lock
	// Granted answers Lock: the process waits for Do or Unlock.
	Granted
	// Refused answers Lock: the request cannot run now.
	Refused
	// Ready follows Refused when the request can run.
	Ready
	// Do has the request run: all processes of the rule have granted it.
	Do
	// Unlock gives a lock, or the booking that a refusal left, back.
	Unlock

	// NoFunctions answers Install: it is of a synchronizer that was taken for a
	// process.
	NoFunctions
	// RulesRefused answers Install: the node of the process does not keep the
	// rules, for the reason in Rule.
	RulesRefused
)

// Part is a synchronizer's part in the requests of a method. It receives
// completed requests in any case.
type Part struct {
	Asked   bool // requests are verified
	Offered bool // requests are offered to atomic rules
}

// Message goes from a process to a synchronizer, back, or between two
// synchronizers. Messages between two of them arrive in the order in which they
// were sent; the last ones may be lost if one of the two is reported dead.
type Message struct {
	Kind     Kind
	From, To string

	Epoch   uint64 `json:",omitzero"` // the synchronizer's; of Ask and its answers: the asking one's
	ID      ID     // of a message without a transaction: only Process and Incarnation
	Attempt uint64 `json:",omitzero"` // the number of the attempt, among all of the process

	Request      guard.Request `json:",omitzero"` // Verify, Completed; Installed: of the lock that the process has granted, the method
	Number       uint64        `json:",omitzero"` // of the request: Verify, Failed, Notify, Withdraw
	Participants []string      `json:",omitzero"` // Verify: the synchronizers of the transaction

	Methods  map[string]Part           `json:",omitzero"` // Install
	Counters map[string]guard.Counters `json:",omitzero"` // Installed; Commit, Completed and Granted: of the request's method

	// Rule is, in a Lock and its answers, the name of the rule, and in a
	// RulesRefused the reason.
	Rule  string `json:",omitzero"`
	Grant ID     `json:",omitzero"` // the attempt of the rule; Installed: the lock that the process has granted
	Age   ID     `json:",omitzero"` // Lock
	Keep  bool   `json:",omitzero"` // Unlock: the rule will try again
	Done  []ID   `json:",omitzero"` // Installed: the last locks that led to a Do
}
