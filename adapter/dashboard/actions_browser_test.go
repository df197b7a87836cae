package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// fill types a text into the field of a name, in place of the one there.
func (b *tab) fill(name, text string) {
	b.Helper()
	field := chromedp.CSS("input[name=" + name + "]")
	b.do(chromedp.WaitVisible(field), chromedp.Clear(field), chromedp.SendKeys(field, text))
}

// weigh returns the stage weigh as the API has it.
func (b *tab) weigh() api.Stage {
	b.Helper()
	return read[api.Snapshot](b.T, b.server, "/snapshot").Stages["weigh"]
}

// becomes waits until a condition holds.
func (b *tab) becomes(condition func() bool) {
	b.Helper()
	require.Eventually(b, condition, giveUp, 20*time.Millisecond)
}

func actions(t *testing.T, w *works, b *tab) {
	eval[any](b, "void (window.confirm = () => true)")
	b.show("#/stage?name=weigh")
	b.click("Pause")
	b.until("document.querySelector('dialog[open] input[name=token]')")
	violations(b, axeSource(t), "token")
	b.shot("token")
	b.fill("token", "not the token of it")
	b.click("Go on")
	b.until("document.querySelector('[role=status]').textContent.includes('Authorization')")
	require.False(t, b.weigh().Paused)
	b.fill("token", token)
	b.fill("who", "ann")
	b.click("Go on")
	b.becomes(func() bool { return b.weigh().Paused })
	b.until("document.querySelector('main').textContent.includes('Resume')")
	b.shot("paused")
	b.click("Resume")
	b.becomes(func() bool { return !b.weigh().Paused })

	b.fill("fewest", "2")
	b.fill("most", "5")
	b.click("Resize")
	b.becomes(func() bool { return b.weigh().Workers.Most == 5 })

	b.show("#/failures?store=failures")
	b.until("document.querySelectorAll('details').length === 1")
	eval[any](b, "void (document.querySelector('details').open = true)")
	kept := w.Failures().Len()
	require.Positive(t, kept)
	b.click("Retry one, then all")
	b.until("document.querySelector('[role=status]').textContent.includes('failed again')")
	b.click("Drop all")
	b.until("document.querySelector('[role=status]').textContent.includes('dropped')")

	b.show("#/policies")
	was := w.Snapshot().Policy
	eval[any](b, "void (document.querySelector('select[name=policy]').value = 'seda')")
	b.click("Apply")
	b.until("document.querySelector('[data-v=policy]').textContent.includes('seda')")
	require.NotEqual(t, was, w.Snapshot().Policy)

	b.show("#/decisions")
	for _, what := range []string{"operator:ann", "weigh"} {
		b.until("document.querySelector('.journal').textContent.includes(" + quote(what) + ")")
	}
	b.show("#/stage?name=weigh")
	require.True(t, strings.HasPrefix(b.text("h1"), "weigh"))
}
