package supervisor

import (
	"sync"
	"testing"
)

// Ran holds the names of the tests that ran and are named in docs/supervision.md.
var Ran sync.Map

func held(t *testing.T) { Ran.Store(t.Name(), true) }
