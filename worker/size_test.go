package worker

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/inbox"
)

// The structs that an idle stage keeps must not outgrow the size classes of the allocator. Above 512 bytes the allocator adds a
// header of one word.
func TestTheStructsOfAnIdleStageStayInTheirSizeClasses(t *testing.T) {
	const header = 8
	require.LessOrEqual(t, unsafe.Sizeof(Worker{})+header, uintptr(576), "one word more costs 64 bytes for each worker")
	require.LessOrEqual(t, unsafe.Sizeof(inbox.Inbox{})+header, uintptr(1024), "the next class is 128 bytes larger, for each stage")
	require.LessOrEqual(t, unsafe.Sizeof(actor.Mailbox{}), uintptr(128), "one word more costs 32 bytes for each stage")
	require.LessOrEqual(t, unsafe.Sizeof(outbox{}), uintptr(48), "one word more costs 16 bytes for each outbox")
}
