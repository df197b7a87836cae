package erlda

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePageListsExactlyTheTestedPromises(t *testing.T) {
	text, err := os.ReadFile("../../docs/erlda.md")
	require.NoError(t, err)
	want := make([]string, 0, len(rows))
	for _, r := range rows {
		want = append(want, r.promise)
	}
	assert.Equal(t, want, promises(string(text)))
}

// promises returns the last cells of the page's rows that start with a defect's number.
func promises(page string) (all []string) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
		if last := cells[len(cells)-1]; len(cells) > 1 && last[0] == 'E' {
			all = append(all, last)
		}
	}
	return all
}
