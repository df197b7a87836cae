package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestThePageIsSmallAndLoadsNothingFromElsewhere(t *testing.T) {
	files, err := filepath.Glob("web/dist/assets/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	size := 0
	for _, file := range append(files, "web/dist/index.html") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err = io.Copy(w, bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		size += packed.Len()
		for _, address := range []string{`src="http`, `href="http`, "url(http", `import("http`, "from\"http"} {
			assert.NotContains(t, string(text), address, file)
		}
	}
	assert.Less(t, size, 150_000)
}

const ranks, breadth = 20, 10

// large is a pipeline of 200 stages, with edges that pass ranks, loops, and two groups.
func large(t *testing.T) *pipeline.Pipeline {
	t.Helper()
	all := make([]*stage.Flow[int, int], ranks*breadth)
	for i := range all {
		all[i] = stage.Map(fmt.Sprintf("stage %d", i), func(_ context.Context, n int) (int, error) { return n, nil })
	}
	parts := []pipeline.Part{pipeline.Group("first", 1, 2, all[3], all[4], all[5]), pipeline.Group("second", 1, 2, all[90], all[100], all[110])}
	for i, f := range all {
		parts = append(parts, f)
		rank, row := i/breadth, i%breadth
		if rank+1 < ranks {
			parts = append(parts, f.To(all[(rank+1)*breadth+(row*3+1)%breadth]))
		}
		if far := i + 5*breadth + 1; i%7 == 0 && far < len(all) {
			parts = append(parts, f.To(all[far]))
		}
		if i%23 == 22 {
			parts = append(parts, f.To(all[i-2*breadth+1])) // a loop
		}
	}
	p, err := pipeline.New("large", append(parts, pipeline.Logger(discard()))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	return p
}

func twoHundredStages(t *testing.T, _ *works, b *tab) {
	b.do(chromedp.Navigate(newDashboard(t, large(t), dashboard.Options{}).URL + "/#/graph"))
	b.until("document.querySelectorAll('[data-stage]').length === 200")
	b.shot("large")
	overlaps := `(() => {
		const boxes = [...document.querySelectorAll('.nodes > li')].map((n) => n.getBoundingClientRect());
		return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
			a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5)).length;
	})()`
	assert.Zero(t, eval[int](b, overlaps), "stages are drawn over one another")
	b.click("group first")
	b.until("document.querySelectorAll('[data-stage]').length === 197 && document.querySelector('.folded')")
	assert.Zero(t, eval[int](b, overlaps), "stages are drawn over one another")
	b.show("#/table")
	b.until("document.querySelector('table').ariaRowCount === '201'")
	assert.Less(t, eval[int](b, "document.querySelectorAll('tr[data-stage]').length"), 100, "rows out of view are in the page")
	eval[any](b, "void (document.querySelector('.scroll').scrollTop = 1e6)")
	b.until("[...document.querySelectorAll('tr[data-stage]')].some((r) => r.dataset.stage === 'stage 199')")
	b.do(chromedp.Navigate(b.server.URL))
}
