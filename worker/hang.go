package worker

import "sync"

// hang is the error of a command whose handler was given up. It wraps the
// reason. Its methods Returned and AfterReturn are for code that keeps the
// command: it must not read the command while a handler may change it.
type hang struct {
	error

	tries int // of the command, the present try included

	mu       sync.Mutex // guards the rest
	returned bool
	then     []func()
}

// Unwrap returns the reason.
func (h *hang) Unwrap() error { return h.error }

// Returned reports whether no handler has the command any more.
func (h *hang) Returned() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.returned
}

// AfterReturn calls f when no handler has the command any more: at once, if
// none has.
func (h *hang) AfterReturn(f func()) {
	h.mu.Lock()
	late := h.returned
	if !late {
		h.then = append(h.then, f)
	}
	h.mu.Unlock()
	if late {
		f()
	}
}

// release notes that no handler has the command any more.
func (h *hang) release() {
	h.mu.Lock()
	then := h.then
	h.returned, h.then = true, nil
	h.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// hangs counts the handlers of a stage that are stuck. It has the errors of
// commands whose last handler has returned and an earlier one may not have,
// since they were tried more than once.
type hangs struct {
	mu      sync.Mutex // guards the rest
	running int
	waiting []*hang
}

// begin counts a handler that is stuck at the given try of its command, and
// returns the error of the command.
func (s *hangs) begin(why error, try int) *hang {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	return &hang{error: why, tries: try}
}

// end notes that a stuck handler has returned. h is the error of its command.
func (s *hangs) end(h *hang) {
	var free []*hang
	s.mu.Lock()
	if s.running--; h.tries > 1 {
		s.waiting = append(s.waiting, h)
	} else {
		free = append(free, h)
	}
	if s.running == 0 {
		free, s.waiting = append(free, s.waiting...), nil
	}
	s.mu.Unlock()
	for _, h := range free {
		h.release()
	}
}
