package dashboard_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
)

// choose chooses a value of the select with a name.
func (b *tab) choose(name, value string) {
	b.Helper()
	b.until(`(() => {
		const s = document.querySelector('select[name=` + name + `]');
		if (!s || ![...s.options].some((o) => o.value === ` + quote(value) + `)) return false;
		s.value = ` + quote(value) + `;
		s.dispatchEvent(new Event('change', { bubbles: true }));
		return true;
	})()`)
}

// column returns the texts of a column of the table of a tap.
func (b *tab) column(n string) []string {
	b.Helper()
	return eval[[]string](b, `[...document.querySelectorAll('.seen tbody tr')].map((r) => r.children[`+n+`].textContent)`)
}

func tapping(t *testing.T, w *works, b *tab) {
	axe := axeSource(t)
	b.show("#/tap")
	b.choose("stage", "label")
	b.choose("result", "error")
	b.fill("limit", "3")
	b.click("Start")
	b.until("document.querySelector('.counts').textContent.includes('■ ended')")
	b.until("document.querySelectorAll('.seen tbody tr').length === 3")
	assert.Equal(t, "3", b.text("[data-v=shown]"))
	for i, stage := range b.column("1") {
		assert.Equal(t, "label", stage)
		assert.Equal(t, "dashboard_test.parcel", b.column("2")[i], "payloads are hidden")
		assert.Equal(t, "✕ no such street: "+hostile, b.column("3")[i])
	}
	assert.Zero(t, eval[int](b, "document.querySelectorAll('img, #app script').length"))
	for _, theme := range []string{"dark", "light"} {
		b.colours(theme)
		b.shot("tapped-" + theme)
		violations(b, axe, "tap, "+theme)
	}
	b.size(390, 844)
	b.shot("tapped-phone")
	assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390)
	b.size(1280, 800)

	// Each page that is left has closed its tap: more of them may not be open.
	for range 10 {
		b.show("#/tap")
		b.choose("stage", "")
		b.fill("share", "1")
		b.click("Start")
		b.until("document.querySelector('.counts b')")
		b.show("#/tree")
	}
	b.until("!document.querySelector('[role=status] .bad')")

	b.do(chromedp.Navigate(newDashboard(t, w.Pipeline, dashboard.Options{Tap: w.taps, Payloads: true}).URL + "/#/tap"))
	b.until("document.querySelector('[name=key]')")
	b.choose("stage", "receive")
	b.fill("text", `"Again":false`)
	eval[any](b, "void document.querySelector('[name=follow]').click()")
	b.click("Start")
	b.until("[...document.querySelectorAll('.seen tbody tr')].some((r) => r.children[1].textContent === 'label')")
	b.shot("followed")
	followed := b.column("2")
	for i, stage := range b.column("1") {
		require.Equal(t, strings.Split(followed[0], ",")[0], strings.Split(followed[i], ",")[0], "one parcel: at %s", stage)
	}
	stages := b.column("1")
	assert.Equal(t, []string{"label", "weigh", "receive"}, stages[len(stages)-3:], "the newest first")
	b.click("Stop")
	b.until("!document.querySelector('.counts').textContent.includes('watching')")
	b.do(chromedp.Navigate(b.server.URL))
}
