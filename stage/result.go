package stage

import "github.com/golda-dev/golda/internal/engine"

type (
	Stuck       = engine.Stuck
	BrokenError = engine.BrokenError
	Reply       = engine.Reply
	TypeError   = engine.TypeError
)
