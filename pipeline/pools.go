package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/supervisor"
)

// pools are the pools that are made and removed while the pipeline runs: the
// shared pools, and the pools of stages that were added later. Their
// supervisors are the children of a tree of their own. The tree of the stages
// would keep them waiting while a stage restarts, and a supervisor below that
// tree would lose its children with each restart.
type pools struct {
	mu   sync.Mutex // guards all below
	all  []*engine.Pool
	tree *supervisor.Tree // nil until it has started

	since time.Time // when the tree started
}

// started returns the tree, or nil if it has not started.
func (s *pools) started() *supervisor.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree
}

// info describes the tree as a child.
func (s *pools) info() supervisor.ChildInfo {
	tree := s.started()
	below := tree.Info()
	c := supervisor.ChildInfo{Name: poolsChild, State: supervisor.Running, Since: s.since, PID: tree.PID(), Supervisor: &below}
	select {
	case <-tree.Done():
		c.State, c.PID = supervisor.Down, nil
	default:
	}
	return c
}

// list returns the pools.
func (s *pools) list() []*engine.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// has reports whether a pool was added and not removed.
func (s *pools) has(pool *engine.Pool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.all, pool)
}

// add adds a pool and returns the tree that is to supervise it, nil if that has
// not started.
func (s *pools) add(pool *engine.Pool) *supervisor.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, pool)
	return s.tree
}

// remove removes a pool and ends its workers, which finish what they hold. It
// does not wait for them, and it does nothing if there is no such pool.
func (s *pools) remove(pool *engine.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, pool); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
		pool.Retire()
	}
}
