package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The bounds of a roster.
const (
	mostMembers = 4096
	mostGone    = 256       // that a newcomer is told of
	forgetAfter = time.Hour // a member that is gone
	lostBeats   = 3         // without which a member is lost
	mostAsked   = 256       // by their IDs in one question
)

// roster has the members that were heard of.
type roster struct {
	mu  sync.Mutex // guards the rest
	all map[string]*member
}

// member has the last announcement of a process, and when it was received.
type member struct {
	announcement

	heard time.Time
	lost  bool
}

// gone reports whether a member is not waited for.
func (m *member) gone() bool { return m.lost || m.Left }

func newRoster() *roster { return &roster{all: map[string]*member{}} }

// hear notes the announcement of a process. It reports false if the roster is
// full. An entry of a process that is gone is replaced by a process that is
// there.
func (r *roster) hear(a announcement, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.all[a.ID]
	switch {
	case m == nil:
		r.replaceLocked(a)
		if len(r.all) >= mostMembers {
			r.evictLocked()
		}
		if len(r.all) >= mostMembers {
			return false
		}
		r.all[a.ID] = &member{announcement: a, heard: now}
	case m.Left: // it said so last
	default:
		m.announcement, m.heard, m.lost = a, now, false
	}
	return true
}

// hearOf notes what another member knows of one that is gone.
func (r *roster) hearOf(d departed, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[d.ID] != nil || len(r.all) >= mostMembers || d.Ago < 0 || d.Ago > forgetAfter {
		return
	}
	for _, m := range r.all {
		if m.Name == d.Name { // it has come back
			return
		}
	}
	r.all[d.ID] = &member{announcement: d.announcement, heard: now.Add(-d.Ago), lost: !d.Left}
}

// replaceLocked forgets the members that are gone and of whose name there is a
// new one.
func (r *roster) replaceLocked(a announcement) {
	for id, m := range r.all {
		if m.gone() && m.Name == a.Name {
			delete(r.all, id)
		}
	}
}

// evictLocked forgets the member that is gone for longest.
func (r *roster) evictLocked() {
	var oldest *member
	for _, m := range r.all {
		if m.gone() && (oldest == nil || m.heard.Before(oldest.heard)) {
			oldest = m
		}
	}
	if oldest != nil {
		delete(r.all, oldest.ID)
	}
}

// look finds the members that are lost, and forgets members that have been gone
// for long.
func (r *roster) look(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.all {
		silence := now.Sub(m.heard)
		m.lost = m.lost || !m.Left && silence > lostBeats*m.Every
		if m.gone() && silence > forgetAfter {
			delete(r.all, id)
		}
	}
}

// excuse lets the silence of all members begin now: this process stood still,
// so it may have missed them.
func (r *roster) excuse(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.all {
		if !m.gone() {
			m.heard = now
		}
	}
}

// awaited returns the IDs of the members that are there and not among the
// answers.
func (r *roster) awaited(answers map[string]report) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.all {
		if _, answered := answers[id]; !answered && !m.gone() {
			ids = append(ids, id)
		}
	}
	return ids
}

// list returns the members, by name.
func (r *roster) list() []member {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]member, 0, len(r.all))
	for _, m := range r.all {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// departed returns the members that are gone, the latest first.
func (r *roster) departed(now time.Time) (all []departed) {
	for _, m := range r.list() {
		if m.gone() {
			all = append(all, departed{m.announcement, now.Sub(m.heard)})
		}
	}
	slices.SortStableFunc(all, func(a, b departed) int { return cmp.Compare(a.Ago, b.Ago) })
	return all[:min(len(all), mostGone)]
}

// find returns the member of a name that is there.
func (r *roster) find(name string) (found member, err error) {
	n := 0
	for _, m := range r.list() {
		if m.Name == name && !m.gone() {
			found = m
			n++
		}
	}
	switch n {
	case 0:
		return found, fmt.Errorf("no process %q is there", name)
	case 1:
		return found, nil
	default:
		return found, fmt.Errorf("%d processes have the name %q: give each another Options.Name", n, name)
	}
}
