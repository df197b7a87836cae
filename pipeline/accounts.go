package pipeline

import (
	"slices"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// stageSet is the stages that there are, in the order of the pipeline. It does
// not change; when stages are added or removed, another one replaces it.
type stageSet struct {
	stages []*engine.Core
	// all are the inboxes by place, including the inboxes of removed stages,
	// whose accounts still belong to the pipeline's.
	all []*inbox.Inbox
}

func newStageSet(stages []*engine.Core, all []*inbox.Inbox) *stageSet { return &stageSet{stages, all} }

// of returns the accounts of a stage.
func (r *stageSet) of(accounts []inbox.Accounts, i int) *inbox.Accounts {
	return &accounts[r.stages[i].Inbox().Place]
}

// inFlight counts the commands that have not ended. Commands between two
// inboxes are the difference of those sent and those received, which may be
// negative for a moment: a command can be counted as received first.
func inFlight(accounts []inbox.Accounts) uint64 {
	var n int64
	for _, s := range accounts {
		n += int64(s.Queue.Load())
		n += int64(s.Counts.Forwarded+s.Counts.Emitted) - int64(s.Counts.Received)
	}
	return uint64(n)
}

// underWay reports whether a command is between two inboxes.
func underWay(accounts []inbox.Accounts) bool {
	var n int64
	for _, s := range accounts {
		n += int64(s.Counts.Forwarded+s.Counts.Emitted) - int64(s.Counts.Received)
	}
	return n != 0
}

// empty reports whether no command is in an inbox or between two.
func empty(accounts []inbox.Accounts) bool {
	return !slices.ContainsFunc(accounts, loaded) && inFlight(accounts) == 0
}

// loaded reports whether an inbox has commands.
func loaded(a inbox.Accounts) bool { return a.Queue.Load() > 0 }
