package show_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestAnErrorNamesHelpAndHelpStartsWithALine(t *testing.T) {
	cases := map[string]struct{ args, err, help string }{
		"none":         {"", "", ""},
		"a flag":       {"-n 3", "", ""},
		"unknown":      {"-no", "flag provided but not defined: -no; see -help", ""},
		"not a number": {"-n x", "invalid value \"x\" for flag -n: parse error", ""},
		"no value":     {"-n", "flag needs an argument: -n", ""},
		"help":         {"-help", "flag: help requested", "counts things.\n  -n number\n    \ta number of things (default 1)\n"},
		"short help":   {"-h", "flag: help requested", "counts things.\n  -n number\n    \ta number of things (default 1)\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := flag.NewFlagSet("count", flag.ContinueOnError)
			f.Int("n", 1, "a `number` of things")
			var help strings.Builder
			err := show.Parse(f, strings.Fields(c.args), "counts things.", &help)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.err)
			}
			assert.Equal(t, c.help, help.String())
		})
	}
}
