package letters

import (
	"time"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Letter is a copy of a letter in a store. Package pipeline documents it, and has a type with the same fields.
type Letter struct {
	stage.DeadLetter
	ID          uint64
	Version     string
	Fingerprint string
	Seen        uint64
	First, Last time.Time
}

// Group sums up the letters of one stage, reason and fingerprint; see pipeline.LetterGroup.
type Group struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	Seen        uint64
	Kept        int
	First, Last time.Time
	Example     Letter // the newest in the store; its ID is 0 if none is
}

// Filter selects letters; see pipeline.LetterFilter.
type Filter struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	If          func(Letter) bool // user code; called without the store's lock
	OldestFirst bool
	Limit       int
}
