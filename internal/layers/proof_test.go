package layers

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test that cannot fail proves nothing, so here are small projects with faults, and the messages for each.

const little = `
-- ground
cellar:
-- first
hall: cellar
attic: cellar
      hall
-- top
shop/*: *
`

func TestTheRulesFindFaults(t *testing.T) {
	noFaults := []string(nil)
	actors := func(_ plan, s []source) []string { return protoactorImports(s) }
	cases := map[string]struct {
		rule func(plan, []source) []string
		file string
		text string
		want []string // the starts of the messages
	}{
		"a package without a line":              {unknownPackages, "shed/a.go", ``, []string{`package "shed" has no line`}},
		"a package under a wildcard has a line": {unknownPackages, "shop/till/a.go", ``, noFaults},
		"a wildcard is not its own parent":      {unknownPackages, "shop/a.go", ``, []string{`package "shop" has no line`}},
		"the root has no line":                  {unknownPackages, "a.go", ``, []string{`package "." has no line`}},
		"a package of tests only needs no line": {unknownPackages, "shed/a_test.go", ``, noFaults},

		"lines without a package": {emptyLines, "cellar/a.go", ``, []string{
			`the line "hall"`, `the line "attic"`, `the line "shop/*"`,
		}},

		"an import downwards":          {wrongImports, "hall/a.go", `import "` + module + `/cellar"`, noFaults},
		"an import upwards":            {wrongImports, "cellar/a.go", `import "` + module + `/hall"`, []string{"cellar/a.go:2: cellar may not import hall"}},
		"an import of a sibling":       {wrongImports, "hall/a.go", `import x "` + module + `/attic"`, []string{"hall/a.go:2: hall may not import attic"}},
		"an import inside an allowed":  {wrongImports, "hall/a.go", `import "` + module + `/cellar/vault"`, []string{"hall/a.go:2: hall may not import cellar/vault"}},
		"an import on a second line":   {wrongImports, "attic/a.go", `import "` + module + `/hall"`, noFaults},
		"an import from the top":       {wrongImports, "shop/till/a.go", `import "` + module + `/hall"`, noFaults},
		"an import by a test":          {wrongImports, "cellar/a_test.go", `import "` + module + `/hall"`, noFaults},
		"an import of a like-named":    {wrongImports, "cellar/a.go", `import "` + module + `x/hall"`, noFaults},
		"an import of the module root": {wrongImports, "cellar/a.go", `import "` + module + `"`, []string{"cellar/a.go:2: cellar may not import"}},

		"protoactor in its package":   {actors, protoactorPackage + "/a.go", `import "` + protoactor + `/actor"`, noFaults},
		"protoactor in another":       {actors, "hall/a.go", `import "` + protoactor + `/actor"`, []string{"hall/a.go:2: only internal/actor"}},
		"protoactor in a test":        {actors, "hall/a_test.go", `import "` + protoactor + `/actor"`, []string{"hall/a_test.go:2: only internal/actor"}},
		"protoactor in the top layer": {actors, "shop/till/a.go", `import "` + protoactor + `"`, []string{"shop/till/a.go:2: only internal/actor"}},

		"a dependency in the top layer": {thirdPartyImports, "shop/till/a.go", `import "github.com/a/b"`, noFaults},
		"a dependency below":            {thirdPartyImports, "hall/a.go", `import _ "github.com/a/b"`, []string{"hall/a.go:2: hall may not import github.com/a/b"}},
		"a dependency without a line":   {thirdPartyImports, "shed/a.go", `import "go.uber.org/zap"`, []string{"shed/a.go:2: shed may not import go.uber.org/zap"}},
		"a test dependency in code":     {thirdPartyImports, "hall/a.go", `import "pgregory.net/rapid"`, []string{"hall/a.go:2: hall may not import pgregory.net/rapid"}},
		"a test dependency in a test":   {thirdPartyImports, "hall/a_test.go", `import "github.com/stretchr/testify/require"`, noFaults},
		"another dependency in a test":  {thirdPartyImports, "hall/a_test.go", `import "github.com/a/b"`, []string{"hall/a_test.go:2: hall may not import github.com/a/b"}},
		"family and standard library":   {thirdPartyImports, "hall/a.go", `import ("net/http"; "golang.org/x/sync/errgroup")`, noFaults},

		"a goroutine":               {impure, "cellar/a.go", `func f() { go f() }`, []string{"cellar/a.go:2: the ground layer is pure: no goroutines"}},
		"a lock":                    {impure, "cellar/a.go", `import "sync"`, []string{"cellar/a.go:2: the ground layer is pure: no locks"}},
		"an atomic":                 {impure, "cellar/a.go", `import "sync/atomic"`, noFaults},
		"a clock":                   {impure, "cellar/a.go", "import \"time\"\nvar t = time.Now()", []string{"cellar/a.go:3: the ground layer is pure: no time.Now"}},
		"a clock as a value":        {impure, "cellar/a.go", "import \"time\"\nvar now = time.Now", []string{"cellar/a.go:3: the ground layer is pure: no time.Now"}},
		"a clock by another name":   {impure, "cellar/a.go", "import clock \"time\"\nfunc f() { <-clock.After(1) }", []string{"cellar/a.go:3: the ground layer is pure: no clock.After"}},
		"a clock without a name":    {impure, "cellar/a.go", `import . "time"`, []string{`cellar/a.go:2: the ground layer is pure: no dot before "time"`}},
		"a clock in a context":      {impure, "cellar/a.go", "import \"context\"\nvar f = context.WithTimeout", []string{"cellar/a.go:3: the ground layer is pure: no context.WithTimeout"}},
		"a length of time":          {impure, "cellar/a.go", "import \"time\"\nconst d time.Duration = time.Second", noFaults},
		"a clock in a higher layer": {impure, "hall/a.go", "import \"time\"\nvar t = time.Now()", noFaults},
		"a clock in a test":         {impure, "cellar/a_test.go", "import \"time\"\nvar t = time.Now()", noFaults},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := parse(little)
			require.NoError(t, err)
			sources, err := read(fstest.MapFS{c.file: {Data: []byte("package x\n" + c.text)}})
			require.NoError(t, err)
			faults := c.rule(p, sources)
			require.Len(t, faults, len(c.want), "%q", faults)
			for i, begin := range c.want {
				assert.Contains(t, faults[i], begin)
			}
		})
	}
}

func TestForbiddenDependenciesAreFoundByTheirWholeName(t *testing.T) {
	deps := []string{"fmt", "example.com/heavy/sub", "example.com/heavyweight"}
	faults := linked(deps, map[string]string{"example.com/heavy": "too heavy"})
	assert.Equal(t, []string{"the core links example.com/heavy/sub: too heavy"}, faults)
}

func TestAContradictoryTextIsRefused(t *testing.T) {
	cases := map[string]string{
		"-- ground\na:\na :":   "a has two lines",
		"-- ground\na: b\nb:":  "a may import b, which has no line above it",
		"-- ground\na: a":      "a may import a, which has no line above it",
		"a:":                   `"a:" is in no layer`,
		"-- ground\n    b c\n": `"b c" is in no layer`,
	}
	for text, want := range cases {
		_, err := parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestOnlyFilesOfTheGoCommandAreRead(t *testing.T) {
	good, bad := []byte("package x"), []byte("not go")
	sources, err := read(fstest.MapFS{
		"a/a.go":          {Data: good},
		"a/testdata/b.go": {Data: bad},
		".git/c.go":       {Data: bad},
		"_old/d.go":       {Data: bad},
		"a/README.md":     {Data: bad},
		"go.mod":          {Data: bad},
		"bench/go.mod":    {Data: bad},
		"bench/sub/e.go":  {Data: bad},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, packagesOf(sources))

	_, err = read(fstest.MapFS{"a/a.go": {Data: bad}})
	assert.Error(t, err, "a file that does not parse is an error")
}
