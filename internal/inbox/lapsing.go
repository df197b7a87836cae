package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/command"
)

const (
	// lookEvery is after which time the inbox looks again.
	lookEvery = 100 * time.Millisecond
	// lookPause is the least time between a look and another one that is made
	// because the inbox is full.
	lookPause = time.Millisecond
	// lookShare and longestPause bound the cost of looks: the pause after a
	// look is lookShare times as long as the look.
	lookShare    = 20
	longestPause = time.Second
)

// lapsing is when the inbox looks for commands that have lapsed.
type lapsing struct {
	watched bool  // the alarm is set, if commands wait that may lapse
	looking bool  // a goroutine looks
	next    int64 // until then a full inbox is no reason to look again
	// lasts is the origin of the last command that was submitted and does not
	// lapse: the next one most often has the same.
	lasts *command.Origin
}
