package scheduler_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDocumentNamesExistingTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/coordination.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	var tests []byte
	for _, dir := range []string{
		".", "../coroutine", "../rpc", "../../adapter/nats", "../../internal/coro", "../../internal/inbox", "../../pipeline", "../../stage",
		"../../worker",
	} {
		files, err := filepath.Glob(dir + "/*_test.go")
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			tests = append(tests, text...)
		}
	}
	for _, n := range named { // the errata name them by their numbers
		declared := regexp.MustCompile(`\nfunc ` + n[1] + `(_[A-Z]\w+)?\(t`)
		assert.True(t, declared.Match(tests), "there is no test %s", n[1])
	}
}
