package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journalled runs the program.
func journalled(t *testing.T, args string) (status int, r report, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), strings.Fields("-json "+args), &out, &err)
	if out.Len() > 0 {
		require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	}
	return status, r, err.String()
}

func TestEachRecordIsWholeAndThereOnce(t *testing.T) {
	status, r, stderr := journalled(t, "-n 100 -crash 0")
	assert.Equal(t, show.StatusOK, status)
	assert.Empty(t, stderr)
	assert.Equal(t, 200, r.Whole)
	assert.Zero(t, r.Torn+r.Missing+r.Twice)
	assert.Zero(t, r.Crashes)
	assert.Len(t, r.Held, 2)
}

func TestWritersThatCrashLeaveNothingHalf(t *testing.T) {
	status, r, _ := journalled(t, "-n 100 -crash 0.2")
	assert.Equal(t, show.StatusOK, status)
	assert.Equal(t, 200, r.Whole)
	assert.Zero(t, r.Torn+r.Missing+r.Twice)
	assert.Greater(t, r.Crashes, uint64(20))
}

func TestWithoutTheSynchronizerRecordsAreTorn(t *testing.T) {
	status, r, stderr := journalled(t, "-n 300 -crash 0 -without")
	assert.Equal(t, show.StatusFailed, status)
	assert.Contains(t, stderr, "are torn")
	assert.Less(t, r.Whole, r.Records)
}

func TestTheReportIsTextToo(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, show.StatusOK, run(t.Context(), strings.Fields("-n 3 -crash 0"), &out, &out))
	assert.Contains(t, out.String(), "records: 6 of 6 whole, 0 torn, 0 missing, 0 twice\ncrashes: 0\norders: held back for ")
}

func TestWrongFlagsAreRefusedTogether(t *testing.T) {
	for args, want := range map[string][]string{
		"-n 0 -crash 2 rest": {"-n 0: at least 1", "-crash 2: from 0 to 0.5", "rest"},
		"-crash NaN":         {"-crash NaN: from 0 to 0.5"},
		"-unknown":           {"-unknown"},
	} {
		var out, err bytes.Buffer
		assert.Equal(t, show.StatusUsage, run(t.Context(), strings.Fields(args), &out, &err), args)
		for _, w := range want {
			assert.Contains(t, err.String(), w)
		}
	}
}
