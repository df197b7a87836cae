package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/supervisor"
)

// saver saves the checkpoints of a feed, in a goroutine of its own.
type saver struct {
	failed   func(error) // called when save has failed
	window   *feed.Window
	save     feed.Save
	ctx      context.Context // of save
	cancel   context.CancelFunc
	finish   chan struct{} // closed when no command is in flight any more
	finished chan struct{} // closed when the last checkpoint is saved, or that has failed

	mu    sync.Mutex // guards the rest
	saved int64
	err   error // of the last save
}

// run saves checkpoints until the end.
func (s *saver) run() {
	defer close(s.finished)
	defer s.cancel()
	for {
		select {
		case <-s.window.Changed():
			s.next()
		case <-s.finish:
			s.next()
			return
		}
	}
}

// next saves the present checkpoint, unless it is saved.
func (s *saver) next() {
	at := s.window.Reached()
	if at == s.savedAt() {
		return
	}
	err := s.try(at)
	s.mu.Lock()
	if s.err = err; err == nil {
		s.saved = at
	}
	s.mu.Unlock()
	if err != nil {
		s.failed(fmt.Errorf("the checkpoint %d was not saved: %w", at, err))
	}
}

func (s *saver) savedAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// try calls save, in a goroutine of its own because it may end that.
func (s *saver) try(at int64) error {
	result := make(chan error, 1)
	go func() {
		err := error(&supervisor.CrashError{Child: "save", Value: errors.New("runtime.Goexit")})
		defer func() {
			if v := recover(); v != nil {
				err = &supervisor.CrashError{Child: "save", Value: v, Stack: debug.Stack()}
			}
			result <- err
		}()
		err = s.save(s.ctx, at)
	}()
	return <-result
}
