package stagetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/stagetest"
)

func TestTheSmallestFailingOrderIsReplayedFromItsText(t *testing.T) {
	found := stagetest.Explore(t, 1000, planted(2))
	require.NotNil(t, found, "within 1000 orders")
	text := found.Order.Text()
	require.NotEmpty(t, text)
	require.ErrorContains(t, found, `stagetest.ReplayOrder(t, "`+text+`", test)`, "the order is reported")
	require.ErrorContains(t, found, "stagetest.Replay(t, ", "the seed is reported")
	for range 10 {
		order, err := stagetest.ReplayOrder(t, text, planted(2))
		require.ErrorIs(t, err, errOrder)
		require.Equal(t, found.Order, order, "in every step")
	}
	order, err := stagetest.ReplayOrder(t, "", planted(2))
	require.NoError(t, err, "first come, first served")
	require.Empty(t, order.Text())
	_, err = stagetest.ReplayOrder(t, text, planted(1))
	require.NoError(t, err, "a test that was fixed")
}

func TestParseStepsNamesTheInvalidWord(t *testing.T) {
	for text, says := range map[string]string{
		"3":              `"3": not of the form step:place`,
		"3:1 4":          `"4"`,
		"3:x":            `"3:x"`,
		":":              `":"`,
		"0:1":            "0 is not from 1 to",
		"1:0":            "0 is not from 1 to",
		"-1:1":           `"-1:1"`,
		"1:1:1":          `"1:1:1"`,
		"4:1 4:2":        `"4:2": comes after step 4`,
		"4:1 3:2":        `"3:2": comes after step 4`,
		"1048577:1":      "is not from 1 to 1048576",
		"99999999999:1":  `"99999999999:1"`,
		"1:1\u00a04:two": `"4:two"`,
	} {
		_, err := stagetest.ParseSteps(text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestParseStepsReadsWhatTextWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := stagetest.Steps(rapid.SliceOf(rapid.Custom(func(t *rapid.T) stagetest.Choice {
			return stagetest.Choice{Place: max(rapid.IntRange(-3, 5).Draw(t, "place"), 0), Among: 6, Actor: "a"}
		})).Draw(t, "order"))
		read, err := stagetest.ParseSteps(order.Text())
		require.NoError(t, err)
		require.LessOrEqual(t, len(read), len(order))
		for i, c := range order {
			place := 0
			if i < len(read) {
				place = read[i].Place
			}
			require.Equal(t, c.Place, place, "step %d", i+1)
		}
	})
}

func FuzzParseSteps(f *testing.F) {
	for _, text := range []string{"", "3:1 17:2", "1:1", " 2:3\t", "0:0", "1:1:1", "9:9 9:9", "1048576:1048576", "-1:1", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		order, err := stagetest.ParseSteps(text)
		if err != nil {
			require.Nil(t, order)
			require.ErrorContains(t, err, "stagetest: invalid step")
			return
		}
		require.Len(t, strings.Fields(order.Text()), len(strings.Fields(text)), "each word is one step")
		again, err := stagetest.ParseSteps(order.Text())
		require.NoError(t, err)
		require.Equal(t, order, again)
	})
}
