package dashboard

import (
	"fmt"
	"net/http"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

const (
	mostKeys = 100 // in one answer
	someKeys = 10
)

// hottest is the answer of GET /golda/v1/keys: the keys of a stage of which most
// commands wait, the largest number first.
type hottest struct {
	Stage string `json:"stage"`
	Keys  []key  `json:"keys"`
	Whole bool   `json:"whole"` // all keys were looked at; of very many it is a part that is chosen by chance
}

// key is a key of a stage that is keyed or fair, or has a rate for each key.
type key struct {
	Hash    string `json:"hash"` // the same as long as the process runs
	Name    string `json:"name"` // the key, if payloads are shown
	Process string `json:"process"`
	Waiting int    `json:"waiting"`
	AtWork  bool   `json:"atWork"` // a worker has commands of the key
	Parked  bool   `json:"parked"` // the commands wait for a letter
}

// keys answers a request for the keys of a stage.
func (d *Dashboard) keys(r *http.Request) (any, error) {
	limit, err := number(r, "limit", someKeys)
	if err != nil {
		return nil, err
	}
	return d.of.keys(r.URL.Query().Get("stage"), int(min(max(limit, 1), mostKeys)))
}

// keys returns none: a recording does not have them.
func (r *recorded) keys(stage string, _ int) (hottest, error) {
	return hottest{Stage: stage, Keys: []key{}}, nil
}

func (l *live) keys(stage string, limit int) (hottest, error) {
	top, whole, err := link.Operate(l.p).Hottest(stage, limit, l.options.Payloads)
	if err != nil {
		return hottest{}, badRequest("%w", err)
	}
	all := hottest{Stage: stage, Keys: []key{}, Whole: whole}
	for _, k := range top {
		one := key{Hash: fmt.Sprintf("%016x", k.Hash)[:8], Waiting: k.Waiting, AtWork: k.AtWork, Parked: k.Parked}
		if k.Name != nil {
			one.Name = brief(plain.Text(k.Name))
		}
		all.Keys = append(all.Keys, one)
	}
	return all, nil
}
