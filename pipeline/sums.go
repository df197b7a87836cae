package pipeline

import (
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/worker"
)

// withSum replaces the command of a letter by the result that its handler could
// not pass on, if the error has one: the other commands that the result was made
// of have ended and have no letters.
func withSum(end inbox.Ending) inbox.Ending {
	of := end.Inbox.Summer()
	if of == nil || of.SumType() == nil || end.Reason != reason.Error || end.Answered {
		return end
	}
	// The methods of the error are user code. An error that crashes has no result.
	_ = worker.Guard(end.Inbox.Name(), func() error {
		if sum, use := of.LostIn(end.Err); use != nil {
			end.Cmd = link.Used{Value: sum, Use: use}
		} else if sum != nil {
			end.Cmd = sum
		}
		return nil
	})
	return end
}

// withoutUse returns an ending as subscribers see it.
func withoutUse(end inbox.Ending) inbox.Ending {
	end.Cmd = link.Bare(end.Cmd)
	return end
}
