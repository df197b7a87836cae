package worker

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/inbox"
)

// What an idle stage keeps is as large as the allocator's next size. Above 512 bytes it adds a word of its own.
func TestWhatAStageKeepsStaysInItsSizeClass(t *testing.T) {
	const header = 8
	require.LessOrEqual(t, unsafe.Sizeof(Worker{})+header, uintptr(576), "one word more costs 64 bytes for each worker")
	require.LessOrEqual(t, unsafe.Sizeof(inbox.Inbox{})+header, uintptr(1024), "the next class is 128 bytes larger, for each stage")
	require.LessOrEqual(t, unsafe.Sizeof(actor.Mailbox{}), uintptr(128), "one word more costs 32 bytes for each stage")
	require.LessOrEqual(t, unsafe.Sizeof(outbox{}), uintptr(48), "one word more costs 16 bytes for each way")
}
