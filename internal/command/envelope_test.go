package command

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAnEnvelopeIsHalfACacheLine(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Envelope{}), uintptr(32))
}

// The facts about a command share one word. The model of this test has a variable for each: changing one must not change
// another.
func TestTheFactsInAnEnvelopesNoteAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const (
			longest, exactly      = 13 * 24 * time.Hour, time.Nanosecond
			longestTried, roughly = 38 * time.Hour, 3 << 17
		)
		var (
			e                       Envelope
			isChild, isWoken        bool
			packed, tries, refusals int
			returned                bool
			entered                 bool
			when                    int64
			place                   = -1
		)
		if rapid.Bool().Draw(t, "emitted") {
			place = rapid.IntRange(0, Emitters).Draw(t, "place")
			e, isChild = Emitted("command", nil, place), true
			if place == Emitters {
				place = -1 // beyond what is recorded
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				when = rapid.Int64Range(int64(longest), 1<<62).Draw(t, "now")
				e.Enter(At(when))
				entered = true
			},
			"fail":   func(*rapid.T) { e.Failed(); tries, refusals, returned, entered = tries+1, 0, true, false },
			"refuse": func(*rapid.T) { e.Refused(); refusals, returned = min(refusals+1, MaxRefusals), true },
			"pack": func(t *rapid.T) {
				packed = rapid.IntRange(0, MaxPack).Draw(t, "pack")
				e.SetPack(packed)
				if packed > 0 {
					place = -1
				}
			},
			"wake": func(*rapid.T) { e.Wake(); isWoken = true },
			"carry": func(t *rapid.T) {
				to := &e
				if rapid.Bool().Draw(t, "elsewhere") {
					to = &Envelope{}
					to.SetPack(rapid.IntRange(0, MaxPack).Draw(t, "was"))
				}
				to.Continue("another", &e)
				e = *to
				isWoken, entered, returned, packed, tries, refusals = false, false, false, 0, 0, 0
			},
			"": func(t *rapid.T) {
				assert.Equal(t, isChild, e.Child())
				assert.Equal(t, place, e.Emitter())
				assert.Equal(t, isWoken, e.Woken())
				assert.Equal(t, packed, e.Pack())
				assert.Equal(t, tries, e.Tries())
				assert.Equal(t, refusals, e.Refusals())
				assert.Equal(t, returned, e.Returned())
				most, within := longest, exactly
				if returned {
					most, within = longestTried, roughly
				}
				later := rapid.Int64Range(0, int64(most)).Draw(t, "later")
				waited, known := e.Waited(when + later)
				require.Equal(t, entered, known)
				if known {
					require.InDelta(t, later, int64(waited), float64(within))
					none, _ := e.Waited(when - later)
					require.LessOrEqual(t, none, within, "the clock was read before the command was queued")
					require.GreaterOrEqual(t, none, time.Duration(0), "a wait is never negative")
				} else {
					require.Zero(t, waited)
				}
			},
		})
	})
}

func TestTriesAreCountedUpToMaxTries(t *testing.T) {
	var e Envelope
	for range MaxTries + 2 {
		e.Failed()
	}
	require.Equal(t, MaxTries, e.Tries())
	_, known := e.Waited(1)
	require.False(t, known)
}

func TestACommandThatWasNotQueuedHasNoWait(t *testing.T) {
	var e Envelope
	_, known := e.Waited(1)
	require.False(t, known)
	e.Enter(At(0))
	waited, known := e.Waited(int64(time.Second))
	require.True(t, known)
	require.InDelta(t, time.Second, waited, 1)
}

func TestACommandThatIsCarriedKeepsItsTicketAndItsEmitter(t *testing.T) {
	ticket := NewTicket(nil)
	from := Emitted("command", ticket.Origin(), 7)
	from.Failed()
	var to Envelope
	to.Continue("another", &from)
	require.Equal(t, Emitted("another", ticket.Origin(), 7), to)
	from.Continue("another", &from)
	require.Equal(t, to, from)
}

func TestTheFirstCommandWithATimeStandsForThoseBehindIt(t *testing.T) {
	es := make([]Envelope, 2*Seen)
	_, many := Waited(nil, 1000)
	require.Zero(t, many)
	es[Seen].Enter(At(1))
	_, many = Waited(es, 1000)
	require.Zero(t, many, "the first one with a time is beyond those that are inspected")
	es[Seen-1].Enter(At(400))
	waited, many := Waited(es, 1000)
	require.Equal(t, Seen+1, many)
	require.EqualValues(t, 600, waited)
	es[0].Enter(At(300))
	waited, many = Waited(es, 1000)
	require.Equal(t, 2*Seen, many)
	require.EqualValues(t, 700, waited)
}
