package pipeline

import "github.com/golda-dev/golda/internal/inbox"

// atRest reports whether no stage has commands except commands that it holds in
// windows. If two calls return true and the same number, nothing has happened
// between them.
func (p *Pipeline) atRest() (number uint64, ok bool) {
	inboxes := p.stages().all
	accounts := inbox.Counts(inboxes)
	if underWay(accounts) {
		return 0, false
	}
	for i := range accounts {
		a := &accounts[i]
		if _, ok := rests(inboxes[i], a); !ok {
			return 0, false
		}
		number += happened(&a.Counts)
	}
	return number, true
}
