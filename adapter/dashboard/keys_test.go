package dashboard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// booking is a command of the ledger: the n-th of its account.
type booking struct {
	Account string
	N       int
}

// ledger is a pipeline of one keyed stage, in which the first booking of an
// account that is hostile fails and parks its key.
type ledger struct {
	*pipeline.Pipeline

	book *stage.Stage[booking]
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	apply := func(_ context.Context, b booking) behaviour.Outcome {
		if b.Account == hostile && b.N == 1 {
			return behaviour.Error(errorText("no such account: " + hostile))
		}
		return behaviour.OK(nil)
	}
	l := &ledger{book: stage.Keyed("book", func(b booking) string { return b.Account },
		func(string) behaviour.Func[booking] { return apply }, stage.ParkOnFailure(), stage.Capacity(1000))}
	var err error
	l.Pipeline, err = pipeline.New("ledger", l.book, pipeline.Logger(discard()))
	require.NoError(t, err)
	require.NoError(t, l.Start(t.Context()))
	t.Cleanup(func() {
		l.Failures().Clear(letters.Filter{})
		_ = l.Resume(l.book)                             // if the test has failed while it was paused
		require.NoError(t, l.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	return l
}

// park submits bookings, of which the first parks the key of the others.
func (l *ledger) park(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, l.book.Submit(t.Context(), booking{hostile, i + 1}))
	}
	// the others are held while the handler runs, and its worker has the key
	// until its letter has been stored
	require.Eventually(t, func() bool {
		s := l.book.Snapshot()
		return s.Queue.Held == n-1 && s.Queue.ParkedKeys == 1 && s.Workers.Busy == 0 && len(l.Failures().List(letters.Filter{})) == 1
	}, giveUp, time.Millisecond)
}

func TestParkedKeysAreInTheAnswers(t *testing.T) {
	l := newLedger(t)
	server := newDashboard(t, l.Pipeline, dashboard.Options{})
	require.Zero(t, read[api.Snapshot](t, server, "/snapshot").Stages["book"].Queue.ParkedKeys)
	l.park(t, 6)
	require.Equal(t, 1, read[api.Snapshot](t, server, "/snapshot").Stages["book"].Queue.ParkedKeys)

	all := read[api.Letters](t, server, "/letters?store=failures").Letters
	require.Len(t, all, 1)
	require.True(t, all[0].Parked)
	require.Equal(t, 5, all[0].Waiting)
	g := read[api.Failures](t, server, "/failures").Groups[0]
	require.Equal(t, 1, g.Parked)
	require.Equal(t, 5, g.Waiting)
	require.Equal(t, 5, g.Sample.Waiting)

	require.True(t, l.Failures().Drop(all[0].N))
	require.Zero(t, read[api.Snapshot](t, server, "/snapshot").Stages["book"].Queue.ParkedKeys)
	require.Zero(t, read[api.Failures](t, server, "/failures").Groups[0].Parked)
}

func TestTheKeysWithMostCommandsAreNamedOnlyIfPayloadsAreShown(t *testing.T) {
	l := newLedger(t)
	hidden := newDashboard(t, l.Pipeline, dashboard.Options{})
	shown := newDashboard(t, l.Pipeline, dashboard.Options{Payloads: true})
	require.Empty(t, read[hotKeys](t, hidden, "/keys?stage=book").Keys)
	l.park(t, 6)
	require.NoError(t, l.Pause(l.book))
	for _, account := range []string{"a", "b", "b"} {
		require.NoError(t, l.book.Submit(t.Context(), booking{account, 1}))
	}
	named := read[hotKeys](t, shown, "/keys?stage=book")
	require.True(t, named.Whole)
	require.Len(t, named.Keys, 3)
	for i, want := range []hotKey{{Name: hostile, Waiting: 5, Parked: true}, {Name: "b", Waiting: 2}, {Name: "a", Waiting: 1}} {
		want.Hash = named.Keys[i].Hash
		require.Len(t, want.Hash, 8)
		require.Equal(t, want, named.Keys[i])
	}
	nameless := read[hotKeys](t, hidden, "/keys?stage=book&limit=2").Keys
	require.Len(t, nameless, 2)
	for i, k := range nameless {
		require.Equal(t, hotKey{Hash: named.Keys[i].Hash, Waiting: named.Keys[i].Waiting, Parked: named.Keys[i].Parked}, k)
	}
	r, body := get(t, hidden, "/golda/v1/keys?stage=none")
	require.Equal(t, 400, r.StatusCode, body)
	require.NoError(t, l.Resume(l.book))
}

// A fair stage has keys, too, and its commands may be of any type.
func TestTheKeysOfAFairStageAreNamed(t *testing.T) {
	by := func(b *booking) string {
		if b.Account == "panic" {
			panic(b.Account)
		}
		return b.Account
	}
	s := stage.Sink("fair", func(context.Context, *booking) error { return nil }, stage.Fair(by, nil, 0))
	p, err := pipeline.New("fair", s, pipeline.Logger(discard()))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	require.NoError(t, p.Pause(s))
	for _, account := range []string{"a", "b", "b", "panic"} {
		require.NoError(t, s.Submit(t.Context(), &booking{account, 1}))
	}
	server := newDashboard(t, p, dashboard.Options{Payloads: true})
	var names []string
	for _, k := range read[hotKeys](t, server, "/keys?stage=fair").Keys {
		names = append(names, k.Name)
	}
	require.Equal(t, []string{"b", "a"}, names, "a command whose key panics has none")
	require.NoError(t, p.Resume(s))
}

// hotKeys is the answer about the keys of a stage.
type hotKeys struct {
	Stage string
	Keys  []hotKey
	Whole bool
}

type hotKey struct {
	Hash, Name     string
	Process        string
	Waiting        int
	AtWork, Parked bool
}

// keys looks at a stage with keys in the browser.
func keys(t *testing.T, _ *works, b *tab) {
	l := newLedger(t)
	server := newDashboard(t, l.Pipeline, dashboard.Options{})
	b.navigate(server.URL + "/#/table")
	b.until("document.querySelector('tr[data-stage=book]') && !document.querySelector('[data-col=parked]')")
	l.park(t, 6)
	b.until("document.querySelector('tr[data-stage=book] [data-col=parked]')?.textContent === '1'")
	b.show("#/stage?name=book")
	b.until("document.querySelector('.chip.parked')?.textContent.includes('1 key parked')")
	hottest := "document.querySelector('[aria-label=\"Hottest keys\"] li')?.textContent"
	b.until(hottest + "?.includes('5 waiting, ❚❚ parked')")
	require.NotContains(t, eval[string](b, hottest), "script", "keys are hidden")
	looksWell(b, "stage with parked keys")
	here := server.URL
	b.navigate(newDashboard(t, l.Pipeline, dashboard.Options{Payloads: true}).URL + "/#/stage?name=book")
	b.until(hottest + "?.includes(" + quote(hostile) + ")")
	require.Zero(t, eval[int](b, "document.querySelectorAll('img, #app script').length"))
	b.navigate(here)
	b.show("#/failures")
	b.until("document.querySelector('details .chip.parked')?.textContent.includes('1 key parked, 5 waiting')")
	require.NoError(t, l.book.Submit(t.Context(), booking{hostile, 7})) // no letter, and so no event, says so
	b.until("document.querySelector('details .chip.parked')?.textContent.includes('1 key parked, 6 waiting')")
	eval[any](b, "void (document.querySelector('details').open = true)")
	require.Contains(t, b.text("details"), "6 later commands of its key wait for it")
	looksWell(b, "failures with a parked key")
	b.navigate(b.server.URL)
}

// looksWell has axe look at the page, in both themes and on a phone.
func looksWell(b *tab, what string) {
	b.Helper()
	for _, theme := range []string{"dark", "light"} {
		b.colours(theme)
		b.shot(what + "-" + theme)
		violations(b, axeSource(b.T), what+", "+theme)
	}
	b.size(390, 844)
	b.shot(what + "-phone")
	require.LessOrEqual(b, eval[int](b, "document.documentElement.scrollWidth"), 390)
	b.size(1280, 800)
}
