package floors

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test that cannot fail is worth nothing, so here are bad little houses, and
// what is said of each.

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

func TestTheRulesFindWhatIsWrong(t *testing.T) {
	noFaults := []string(nil)
	actors := func(_ plan, s []source) []string { return strayActors(s) }
	cases := map[string]struct {
		rule func(plan, []source) []string
		file string
		text string
		want []string // the beginnings of the messages
	}{
		"a room without a line":              {unknownRooms, "shed/a.go", ``, []string{`room "shed" has no line`}},
		"a room under a wildcard has a line": {unknownRooms, "shop/till/a.go", ``, noFaults},
		"a wildcard is not its own parent":   {unknownRooms, "shop/a.go", ``, []string{`room "shop" has no line`}},
		"the root has no line":               {unknownRooms, "a.go", ``, []string{`room "." has no line`}},
		"a room of tests only needs no line": {unknownRooms, "shed/a_test.go", ``, noFaults},

		"lines without a room": {emptyLines, "cellar/a.go", ``, []string{
			`the line "hall"`, `the line "attic"`, `the line "shop/*"`,
		}},

		"an import downwards":          {wrongWays, "hall/a.go", `import "` + module + `/cellar"`, noFaults},
		"an import upwards":            {wrongWays, "cellar/a.go", `import "` + module + `/hall"`, []string{"cellar/a.go:2: cellar may not import hall"}},
		"an import of a stranger":      {wrongWays, "hall/a.go", `import x "` + module + `/attic"`, []string{"hall/a.go:2: hall may not import attic"}},
		"an import inside an allowed":  {wrongWays, "hall/a.go", `import "` + module + `/cellar/vault"`, []string{"hall/a.go:2: hall may not import cellar/vault"}},
		"an import on a second line":   {wrongWays, "attic/a.go", `import "` + module + `/hall"`, noFaults},
		"an import from the top":       {wrongWays, "shop/till/a.go", `import "` + module + `/hall"`, noFaults},
		"an import by a test":          {wrongWays, "cellar/a_test.go", `import "` + module + `/hall"`, noFaults},
		"an import of a like-named":    {wrongWays, "cellar/a.go", `import "` + module + `x/hall"`, noFaults},
		"an import of the module root": {wrongWays, "cellar/a.go", `import "` + module + `"`, []string{"cellar/a.go:2: cellar may not import"}},

		"protoactor in its room":      {actors, protoactorRoom + "/a.go", `import "` + protoactor + `/actor"`, noFaults},
		"protoactor in another":       {actors, "hall/a.go", `import "` + protoactor + `/actor"`, []string{"hall/a.go:2: only internal/actor"}},
		"protoactor in a test":        {actors, "hall/a_test.go", `import "` + protoactor + `/actor"`, []string{"hall/a_test.go:2: only internal/actor"}},
		"protoactor on the top floor": {actors, "shop/till/a.go", `import "` + protoactor + `"`, []string{"shop/till/a.go:2: only internal/actor"}},

		"a guest on the top floor":      {strayGuests, "shop/till/a.go", `import "github.com/a/b"`, noFaults},
		"a guest below":                 {strayGuests, "hall/a.go", `import _ "github.com/a/b"`, []string{"hall/a.go:2: hall may not import github.com/a/b"}},
		"a guest in a room without one": {strayGuests, "shed/a.go", `import "go.uber.org/zap"`, []string{"shed/a.go:2: shed may not import go.uber.org/zap"}},
		"a test guest in code":          {strayGuests, "hall/a.go", `import "pgregory.net/rapid"`, []string{"hall/a.go:2: hall may not import pgregory.net/rapid"}},
		"a test guest in a test":        {strayGuests, "hall/a_test.go", `import "github.com/stretchr/testify/require"`, noFaults},
		"another guest in a test":       {strayGuests, "hall/a_test.go", `import "github.com/a/b"`, []string{"hall/a_test.go:2: hall may not import github.com/a/b"}},
		"family and standard library":   {strayGuests, "hall/a.go", `import ("net/http"; "golang.org/x/sync/errgroup")`, noFaults},

		"a goroutine":             {impure, "cellar/a.go", `func f() { go f() }`, []string{"cellar/a.go:2: the ground floor is pure: no goroutines"}},
		"a lock":                  {impure, "cellar/a.go", `import "sync"`, []string{"cellar/a.go:2: the ground floor is pure: no locks"}},
		"an atomic":               {impure, "cellar/a.go", `import "sync/atomic"`, noFaults},
		"a clock":                 {impure, "cellar/a.go", "import \"time\"\nvar t = time.Now()", []string{"cellar/a.go:3: the ground floor is pure: no time.Now"}},
		"a clock as a value":      {impure, "cellar/a.go", "import \"time\"\nvar now = time.Now", []string{"cellar/a.go:3: the ground floor is pure: no time.Now"}},
		"a clock by another name": {impure, "cellar/a.go", "import clock \"time\"\nfunc f() { <-clock.After(1) }", []string{"cellar/a.go:3: the ground floor is pure: no clock.After"}},
		"a clock without a name":  {impure, "cellar/a.go", `import . "time"`, []string{`cellar/a.go:2: the ground floor is pure: no dot before "time"`}},
		"a clock in a context":    {impure, "cellar/a.go", "import \"context\"\nvar f = context.WithTimeout", []string{"cellar/a.go:3: the ground floor is pure: no context.WithTimeout"}},
		"a length of time":        {impure, "cellar/a.go", "import \"time\"\nconst d time.Duration = time.Second", noFaults},
		"a clock upstairs":        {impure, "hall/a.go", "import \"time\"\nvar t = time.Now()", noFaults},
		"a clock in a test":       {impure, "cellar/a_test.go", "import \"time\"\nvar t = time.Now()", noFaults},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := parse(little)
			require.NoError(t, err)
			sources, err := read(fstest.MapFS{c.file: {Data: []byte("package x\n" + c.text)}})
			require.NoError(t, err)
			said := c.rule(p, sources)
			require.Len(t, said, len(c.want), "%q", said)
			for i, begin := range c.want {
				assert.Contains(t, said[i], begin)
			}
		})
	}
}

func TestWhatMustNotBeLinkedIsFoundByItsWholeName(t *testing.T) {
	deps := []string{"fmt", "example.com/heavy/sub", "example.com/heavyweight"}
	said := linked(deps, map[string]string{"example.com/heavy": "too heavy"})
	assert.Equal(t, []string{"the core links example.com/heavy/sub: too heavy"}, said)
}

func TestATextThatContradictsItselfIsRefused(t *testing.T) {
	cases := map[string]string{
		"-- ground\na:\na :":   "a has two lines",
		"-- ground\na: b\nb:":  "a may import b, which has no line above it",
		"-- ground\na: a":      "a may import a, which has no line above it",
		"a:":                   `"a:" stands on no floor`,
		"-- ground\n    b c\n": `"b c" stands on no floor`,
	}
	for text, want := range cases {
		_, err := parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestOnlyWhatTheGoCommandReadsIsRead(t *testing.T) {
	good, bad := []byte("package x"), []byte("not go")
	sources, err := read(fstest.MapFS{
		"a/a.go":          {Data: good},
		"a/testdata/b.go": {Data: bad},
		".git/c.go":       {Data: bad},
		"_old/d.go":       {Data: bad},
		"a/README.md":     {Data: bad},
		"go.mod":          {Data: bad},
		"other/go.mod":    {Data: bad},
		"other/sub/e.go":  {Data: bad},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, roomsOf(sources))

	_, err = read(fstest.MapFS{"a/a.go": {Data: bad}})
	assert.Error(t, err, "a file that does not parse is not passed over")
}
