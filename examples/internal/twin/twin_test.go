package twin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALineOfCodeHasMoreThanCommentsAndImports(t *testing.T) {
	rows := []struct {
		name, source string
		want         int
	}{
		{"an empty file", "package p\n", 0},
		{"imports", "// Doc.\npackage p\n\nimport \"fmt\"\n\nimport (\n\t\"io\"\n\t\"os\" // why\n)\n", 0},
		{"a function", "package p\n\nimport \"fmt\"\n\n// F does it.\nfunc f() {\n\n\t// so\n\tg() // here\n}\n", 3},
		{"a long comment", "package p\n\n/* a\nb */ var x = 1 /*\nc */\n", 1},
		{"a raw string", "package p\n\nvar x = `a\n// b\n\nc`\n", 4},
		{"a call over some lines", "package p\n\nvar x = f(\n\t1,\n\t2,\n)\n", 4},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			n, err := lines("f.go", []byte(row.source))
			require.NoError(t, err)
			assert.Equal(t, row.want, n)
		})
	}
}

func TestAFileThatIsNoGoIsAnError(t *testing.T) {
	_, err := lines("f.go", []byte("fun"))
	require.Error(t, err)
	_, err = Lines("missing.go")
	require.Error(t, err)
}

func TestATableKeepsWhatIsNotMeasured(t *testing.T) {
	earlier := "| | Golda | by hand |\n|---|---|---|\n| lines | 1 | 2 |\n| time for 3 pages | 1.00 s | 2.00 s |\n"
	assert.Equal(t, earlier, table([]Row{{"lines", "1", "2"}, {Name: "time for 3 pages"}}, earlier))
	assert.NotEqual(t, earlier, table([]Row{{"lines", "3", "2"}, {Name: "time for 3 pages"}}, earlier))
	assert.NotContains(t, table([]Row{{Name: "time for 4 pages"}}, earlier), "1.00 s", "of another number of pages")
}
