package stacks_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/stacks"
)

func TestThePlaceIsTheInnermostCallOfUserCode(t *testing.T) {
	const engine = `
github.com/golda-dev/golda/behaviour.Func[...].HandleCommand(0x1?, {0x2?, 0x3?}, 0x4?)
	/src/behaviour/behaviour.go:40 +0x1d
github.com/golda-dev/golda/stage.(*single[...]).Handle(0x1, {0x2, 0x3})
	/src/stage/instance.go:50 +0x1d
github.com/golda-dev/golda/worker.each.handle(0xc000000001, 0x1)
	/src/worker/worker.go:400 +0x1d
github.com/golda-dev/golda/worker.(*Worker).work(0xc000000001, 0x1)
	/src/worker/worker.go:380 +0x1d
created by github.com/asynkron/protoactor-go/actor.goroutineDispatcher.Schedule in goroutine 1
	/mod/dispatcher.go:10 +0x1d
`
	for name, row := range map[string]struct{ stack, want string }{
		"a program's own": {"main.(*till).HandleCommand(0x1)\n\t/home/shop/till.go:31 +0x1d", "main.(*till).HandleCommand till.go:31"},
		"beneath the standard library": {"sync.(*Mutex).Lock(...)\n\t/go/sync/mutex.go:46\nmain.sum(0x1)\n\t/home/shop/sum.go:7 +0x1d\n" +
			"main.f.func1()\n\t/home/shop/till.go:31 +0x1d", "main.sum sum.go:7"},
		"a library": {"internal/poll.runtime_pollWait(0x1)\n\t/go/netpoll.go:1 +0x1d\ngithub.com/lib/pq.(*conn).recv(0x1)\n\t/mod/conn.go:9 +0x1d\n" +
			"example.com/shop/till.Handle(0x1)\n\t/home/shop/till.go:31 +0x1d", "pq.(*conn).recv conn.go:9"},
		"a module without a host": {"time.Sleep(0x1)\n\t/go/time.go:1 +0x1d\nshop/sums.Add(0x1)\n\t/home/shop/sums/add.go:3 +0x1d\n" +
			"shop/till.Handle(0x1)\n\t/home/shop/till.go:31 +0x1d", "sums.Add add.go:3"},
		"in a call to the engine": {"github.com/golda-dev/golda/internal/inbox.(*Inbox).await(0x1)\n\t/src/admit.go:150 +0x1d\n" +
			"github.com/golda-dev/golda/stage.(*Stage[...]).Submit(0x1)\n\t/src/stage.go:150 +0x1d\nmain.f(0x1)\n\t/home/shop/till.go:31 +0x1d", "main.f till.go:31"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, stacks.Place([]byte("goroutine 7 [select]:\n"+row.stack+engine)))
		})
	}
	require.Empty(t, stacks.Place(nil))
	require.Empty(t, stacks.Place([]byte("goroutine 7 [select]:"+engine)), "no user code")
}

func TestAFingerprintIsMadeOfFunctionsAndLines(t *testing.T) {
	const stack = "goroutine 7 [running]:\n" +
		"runtime/debug.Stack()\n\t/go/src/runtime/debug/stack.go:26 +0x5e\n" +
		"panic({0x4a97e0?, 0x4ced78?})\n\t/go/src/runtime/panic.go:860 +0x13a\n" +
		"main.(*T[...]).inner(0xc000012345, {0x1, 0x2})\n\t/my src/a.go:11 +0x25\n" +
		"main.outer(...)\n\t/my src/a.go:22\n" +
		"created by main.main in goroutine 1\n\t/my src/a.go:99 +0x78\n"
	want := stacks.Fingerprint([]byte(stack))
	for name, row := range map[string]struct {
		old, new string
		same     bool
	}{
		"the goroutine's number":         {"goroutine 7", "goroutine 8123", true},
		"the creator's number":           {"goroutine 1\n", "goroutine 5\n", true},
		"the creator":                    {"a.go:99", "a.go:98", true},
		"an argument":                    {"0xc000012345", "0xc000054321?", true},
		"the panic's value":              {"0x4a97e0?", "0x1", true},
		"an offset":                      {"+0x25", "+0x26", true},
		"the directory":                  {"/my src/", "/home/other/", true},
		"the runtime's line":             {"panic.go:860", "panic.go:861", true},
		"a call again":                   {"main.outer(...)\n", "main.outer(0x1)\n\t/my src/a.go:22 +0x1\nmain.outer(...)\n", true},
		"calls left out of a long stack": {"main.outer(...)\n", "...23 frames elided...\nmain.outer(...)\n", true},
		"a line":                         {"a.go:11", "a.go:12", false},
		"a function":                     {"inner", "other", false},
		"a file":                         {"a.go:11", "b.go:11", false},
		"a caller":                       {"main.outer", "main.another", false},
	} {
		require.Contains(t, stack, row.old, name)
		got := stacks.Fingerprint([]byte(strings.ReplaceAll(stack, row.old, row.new)))
		require.Equal(t, row.same, want == got, name)
	}
}

func TestATextThatIsNotAStackHasNoFingerprint(t *testing.T) {
	for name, stack := range map[string]string{
		"nil":              "",
		"a text":           "the stack",
		"only a header":    "goroutine 1 [running]:\n",
		"only its creator": "goroutine 1 [running]:\ncreated by main.main in goroutine 2\n\t/src/main.go:3 +0x1\n",
		"only a place":     "\t/src/main.go:3 +0x1\n",
		"lines of nothing": "\n\n\t\n)\n"[:3],
	} {
		require.Empty(t, stacks.Fingerprint([]byte(stack)), name)
	}
}

func TestAStackSaysWhatItsGoroutineWaitsFor(t *testing.T) {
	const slot = "\ngithub.com/golda-dev/golda/internal/inbox.(*Inbox).await(0xc000000010, 0x1)\n\t/src/submit.go:1 +0x1d"
	const answer = "\ngithub.com/golda-dev/golda/internal/command.(*Ticket).Wait(0xc000000020)\n\t/src/ticket.go:1 +0x1d"
	for name, row := range map[string]struct {
		stack   string
		what    stacks.Await
		address uint64
	}{
		"a free slot":             {slot, stacks.Slot, 0xc000000010},
		"an answer":               {answer, stacks.Answer, 0xc000000020},
		"the innermost call":      {answer + slot, stacks.Answer, 0xc000000020},
		"an argument in no place": {strings.ReplaceAll(answer, "0xc000000020", "..."), stacks.Answer, 0},
		"nothing of the engine":   {"\nmain.main()\n\t/src/main.go:1 +0x1d", stacks.Nothing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			what, address := stacks.Awaits([]byte("goroutine 7 [select]:" + row.stack))
			require.Equal(t, row.what, what)
			require.Equal(t, row.address, address)
		})
	}
}

func TestTheReceiverIsThatOfTheOutermostCallWithAnAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOf(rapid.Uint64()).Draw(t, "addresses, 0 for none")
		var stack strings.Builder
		stack.WriteString("goroutine 7 [running]:")
		want := uint64(0)
		for _, address := range calls {
			argument := "..."
			if address > 0 {
				argument, want = fmt.Sprintf("%#x, 0x1", address), address
			}
			stack.WriteString("\nmain.(*T).work(" + argument + ")\n\t/src/a.go:1 +0x1d\nmain.(*T).other(0x9)\n\t/src/a.go:2 +0x1d")
		}
		require.Equal(t, want, stacks.Receiver([]byte(stack.String()), []byte("\nmain.(*T).work")))
	})
}

func TestAGoroutineIsFoundByItsHeader(t *testing.T) {
	headers, end := make(chan []byte), make(chan struct{})
	go func() {
		headers <- stacks.Header()
		<-end
	}()
	defer close(end)
	header := <-headers
	require.Regexp(t, `^goroutine \d+ $`, string(header))
	require.NotEqual(t, header, stacks.Header(), "each goroutine has a header of its own")
	found := 0
	stacks.Each(func(stack []byte) {
		if bytes.HasPrefix(stack, header) {
			found++
			require.Contains(t, string(stack), "TestAGoroutineIsFoundByItsHeader")
		}
	})
	require.Equal(t, 1, found)
}

// value has a method that prints the stack on which it runs.
type value struct{ n int }

//go:noinline
func (v *value) stack() []byte {
	buf := make([]byte, 1<<16)
	buf = buf[:runtime.Stack(buf, false)]
	v.n++
	return buf
}

func TestAValueIsFoundByItsAddressOnTheStack(t *testing.T) {
	v := new(value)
	method := []byte("\n" + stacks.Module + "internal/stacks_test.(*value).stack")
	require.Equal(t, stacks.Address(v), stacks.Receiver(v.stack(), method))
}

// Readings of the same moment are one, and each goroutine is found in it by its header.
func TestARecentReadingIsShared(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which forgets readings
	all := stacks.Recent(0)
	require.Same(t, &all[0], &stacks.Recent(time.Hour)[0])
	time.Sleep(time.Millisecond)
	require.NotSame(t, &all[0], &stacks.Recent(0)[0], "it is too old")

	headers, over := make(chan []byte), make(chan struct{})
	for range 3 {
		go func() {
			headers <- stacks.Header()
			<-over
		}()
	}
	for range 3 {
		header := <-headers
		stack := stacks.Of(stacks.All(), header)
		require.True(t, bytes.HasPrefix(stack, header))
		require.Contains(t, string(stack), "TestARecentReadingIsShared.func1")
		require.NotContains(t, string(stack), "\n\n")
	}
	close(over)
	require.NotNil(t, stacks.Of(stacks.All(), stacks.Header()), "the first one")
	require.Nil(t, stacks.Of(all, []byte("goroutine 0 ")))
}
