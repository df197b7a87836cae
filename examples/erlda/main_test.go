package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func calculated(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaint bytes.Buffer
	status = run(t.Context(), args, &out, &complaint)
	return status, out.String(), complaint.String()
}

func TestEachOutcomeIsAnsweredAndACrashCostsOneCommand(t *testing.T) {
	status, out, complaint := calculated(t)
	require.Equal(t, show.StatusOK, status, complaint)
	require.Contains(t, out, `84/2   the quotient is 42
seven  stage "parse": no division
1/0    crash of stage "divide": runtime error: integer divide by zero
ping   pong
9/3    the quotient is 3
`)
}

func TestTheTreeShowsWorkersCrashesAndReplacements(t *testing.T) {
	status, out, complaint := calculated(t, "1/0", "1/0", "4/2")
	require.Equal(t, show.StatusOK, status, complaint)
	require.Contains(t, out, "4/2    the quotient is 2\n")
	require.Regexp(t, `── format: running for .*, workers: 1, crashes: 0, replaced: 0\n`, out)
	require.Regexp(t, `── divide: running for .*, workers: [12], crashes: 2, replaced: [12]\n`, out) // the other worker is replaced a moment later
	require.Regexp(t, `── parse: running for .*, workers: 1, crashes: 0, replaced: 0\n`, out)
}

func TestHelpIsNoErrorAndAnUnknownFlagIs(t *testing.T) {
	status, out, _ := calculated(t, "-help")
	require.Equal(t, show.StatusOK, status)
	require.Contains(t, out, "erlda [command ...]")
	status, _, complaint := calculated(t, "-unknown")
	require.Equal(t, show.StatusUsage, status)
	require.Contains(t, complaint, "-unknown")
}
