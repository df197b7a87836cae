package scheduler_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDocumentsNameExistingTests(t *testing.T) {
	var named [][]string
	for _, name := range []string{"coordination.md", "crpc.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		found := regexp.MustCompile("`((?:Test|Example)\\w+)`").FindAllStringSubmatch(string(page), -1)
		require.NotEmpty(t, found)
		named = append(named, found...)
	}
	var tests []byte
	for _, dir := range []string{
		".", "../coroutine", "../monitor", "../rpc", "../synchronizer", "../transport", "../../adapter/nats", "../../internal/coro", "../../internal/inbox", "../../internal/requests", "../../internal/transaction", "../../pipeline", "../../stage",
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
		declared := regexp.MustCompile(`\nfunc ` + n[1] + `(_[A-Z]\w+)?\(`)
		assert.True(t, declared.Match(tests), "there is no test %s", n[1])
	}
}
