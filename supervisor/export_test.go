package supervisor

import (
	"sync"
	"testing"
)

// Ran are the tests of the table in docs/supervision.md that ran.
var Ran sync.Map

func held(t *testing.T) { Ran.Store(t.Name(), true) }
