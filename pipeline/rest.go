package pipeline

import "github.com/golda-dev/golda/internal/inbox"

// atRest reports whether no stage has commands but those that it holds. Two calls that return true and the same number say that nothing
// has happened between them.
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
		number += happened(a)
	}
	return number, true
}
