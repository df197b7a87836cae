package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
)

// press clicks the first element that a selector finds.
func (b *tab) press(selector string) {
	b.Helper()
	find := "document.querySelector(" + quote(selector) + ")"
	b.until(find)
	eval[any](b, "void "+find+".click()")
}

// says waits until the page says a text about an action.
func (b *tab) says(text string) {
	b.Helper()
	said := ""
	b.becomes(func() bool {
		if now := b.text(".message"); now != "" && now != said {
			said = now
			b.Log(said)
		}
		return strings.Contains(said, text)
	})
}

// buttons clicks the buttons that no other test does.
func buttons(t *testing.T, w *works, b *tab) {
	// A file is not written, and a text not copied: their names and texts are kept.
	keep := `void (() => {
		window.confirm = () => true;
		HTMLAnchorElement.prototype.click = function () { window.saved = this.download; };
		Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: async (t) => { window.copied = t; } } });
	})()`
	eval[any](b, keep)
	b.show("#/stage?name=weigh")
	b.press("[aria-label='At work now'] input[type=checkbox]")
	b.until("document.querySelector('[aria-label=\"At work now\"] code')")
	b.press("[aria-label='At work now'] input[type=checkbox]")

	w.hold(t)
	b.click("Drain")
	b.says("is drained")
	require.True(t, b.weigh().Draining)
	b.press("[aria-label='Close the message']")
	b.until("!document.querySelector('.message p')")
	b.click("Reopen")
	b.becomes(func() bool { return !b.weigh().Draining })
	b.fill("slots", "32")
	b.click("Set capacity")
	b.becomes(func() bool { return b.weigh().Queue.Capacity == 32 })
	b.fill("perSecond", "500")
	b.fill("burst", "5")
	b.click("Set rate")
	b.says("admits")
	eval[any](b, "void (document.querySelector('input[name=perSecond]').value = '0')") // typing would add to the text
	b.click("Set rate")
	b.says("the rate of its policy")
	w.setHeld(false)

	b.show("#/graph")
	for _, step := range []struct{ button, until string }{
		{"[aria-label=Larger]", "location.hash.includes('zoom')"},
		{"[aria-label=Smaller]", "location.hash.includes('zoom')"},
		{".bar-of-tools [aria-pressed]", "!location.hash.includes('zoom')"},
		{".time > button", "document.querySelector('.brand').textContent.includes('in the past')"},
		{".time > button", "document.querySelector('.brand').textContent.includes('live')"},
		{".files > button", "window.saved?.startsWith('golda-works')"},
	} {
		b.press(step.button)
		b.until(step.until)
	}
	b.show("#/table")
	b.click("Copy as text")
	b.until("window.copied?.includes('weigh')")
	b.press("thead th:nth-child(3) button")
	b.until("document.querySelector('thead th:nth-child(3)').ariaSort !== 'none'")
	was := eval[string](b, "document.documentElement.dataset.theme ?? ''")
	b.press("[aria-label^='Use ']")
	b.until("document.documentElement.dataset.theme !== " + quote(was))
	eval[any](b, "void localStorage.removeItem('golda-theme')")

	here := b.server
	b.server = newDashboard(t, w.Pipeline, dashboard.Options{Token: token, Payloads: true})
	b.navigate(b.server.URL + "/#/failures?store=failures")
	eval[any](b, keep)
	b.until("document.querySelector('main details')")
	b.click("Export")
	b.until("document.querySelector('dialog[open]')")
	b.click("Cancel")
	b.until("!document.querySelector('dialog')")
	b.click("Export")
	b.fill("token", token)
	b.click("Go on")
	b.until("window.saved === 'golda-works-failures.jsonl'")
	eval[any](b, "void document.querySelectorAll('main details').forEach((d) => (d.open = true))")
	b.until("document.querySelector('textarea[name=command]')")
	eval[any](b, `void (document.querySelector('textarea[name=command]').value = '{"N":1,"Again":true}')`)
	b.click("Retry with this command")
	b.says("was edited and retried")
	b.show("#/failures?store=quarantine")
	b.until("document.querySelector('main details')")
	eval[any](b, "void document.querySelectorAll('main details').forEach((d) => (d.open = true))")
	b.press("[aria-label='Close the message']")
	b.until("!document.querySelector('.message p')")
	b.click("Retry one")
	b.says("retr") // it crashes again, perhaps before the answer
	b.server = here
	b.navigate(here.URL)
}
