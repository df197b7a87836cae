package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

// job is a command with a priority and a deadline.
type job struct {
	name   string
	prio   int
	due    int // in seconds; 0: none
	panics bool
}

func (j job) Priority() int {
	if j.panics {
		panic("no priority")
	}
	return j.prio
}

func (j job) Deadline() time.Time {
	switch {
	case j.panics:
		panic("no deadline")
	case j.due == 0:
		return time.Time{}
	}
	return time.Unix(int64(j.due), 0)
}

func (j job) String() string { return j.name }

// jobs returns jobs named by letters. Each pair is a priority and the second when the job is due.
func jobs(of ...[2]int) []command.Envelope {
	es := make([]command.Envelope, 0, len(of))
	for i, j := range of {
		es = append(es, command.Envelope{Load: job{name: string(rune('a' + i)), prio: j[0], due: j[1]}})
	}
	return es
}

var fiveJobs = jobs([2]int{0, 0}, [2]int{2, 9}, [2]int{1, 3}, [2]int{2, 3}, [2]int{-1, 5})

// names takes all queued commands and returns them in the order in which they come out.
func names(w *testWorker) string {
	var out []string
	for {
		in, cmds := w.turn(false)
		if in == nil {
			return strings.Join(out, " ")
		}
		for _, cmd := range cmds {
			out = append(out, fmt.Sprint(cmd))
		}
	}
}

var disciplines = map[string]struct {
	d                                 queue.Discipline
	want                              string // what comes out, of a b c d e
	oldest                            string // what comes out of an inbox with capacity 3 that drops the oldest
	givenBack, switched, switchedBack string
}{
	"nil":      {nil, "a b c d e", "c d e", "b c d e", "b c d e", "a b c d e"},
	"FIFO":     {queue.FIFO{}, "a b c d e", "c d e", "b c d e", "b c d e", "a b c d e"},
	"LIFO":     {queue.LIFO{}, "e d c b a", "e d c", "d c b a", "e d c b", "a b c d e"},
	"adaptive": {queue.AdaptiveLIFO{Above: 3}, "e d a b c", "c d e", "d a b c", "e b c d", "a b c d e"},
	"priority": {queue.Priority{}, "b d c a e", "d c e", "d c a e", "b d c e", "a b c d e"},
	"deadline": {queue.Deadline{}, "c d e b a", "c d e", "d e b a", "c d e b", "a b c d e"},
}

func newOrdered(t *testing.T, d queue.Discipline, change ...func(*Config)) (*testbed, *testWorker) {
	t.Helper()
	tb := newTestbed(t, 1, append(change, func(c *Config) { c.Discipline = d })...)
	tb.inboxes[0].Settings().Bind(nil)
	return tb, tb.addOwnWorker(tb.inboxes[0])
}

func TestADisciplineOrdersSubmittedAndHandedOverCommands(t *testing.T) {
	for name, test := range disciplines {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, test.d)
			for _, e := range fiveJobs {
				tb.submit(0, e.Load)
			}
			require.Equal(t, test.want, names(w), "submitted")
			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			require.Equal(t, test.want, names(w), "handed over")
			require.Equal(t, 2, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs[:2], 0, false, false))
			require.NoError(t, tb.inboxes[0].Senders().Send(t.Context(), fiveJobs[3], nil, false, false))
			require.Equal(t, 1, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs[2:3], 0, false, false))
			require.Len(t, strings.Fields(names(w)), 4, "and sent")
		})
	}
}

func TestDropOldestDropsTheCommandThatCameFirstWhateverTheDiscipline(t *testing.T) {
	for name, test := range disciplines {
		for _, handed := range []bool{false, true} {
			tb, w := newOrdered(t, test.d, func(c *Config) { c.Capacity, c.Overflow = 3, DropOldest })
			if handed {
				require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			} else {
				for _, e := range fiveJobs {
					tb.submit(0, e.Load)
				}
			}
			require.Equal(t, test.oldest, names(w), "%s, handed over: %v", name, handed)
			require.Len(t, tb.ends, 2)
			for i, dropped := range []string{"a", "b"} {
				require.Equal(t, dropped, fmt.Sprint(tb.ends[i].Cmd), name)
				require.Equal(t, reason.Oldest, tb.ends[i].Reason)
			}
		}
	}
}

// The commands that a crash gives back are next, in the order in which they were taken.
func TestCommandsGivenBackByACrashComeFirstWhateverTheDiscipline(t *testing.T) {
	for name, test := range disciplines {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, test.d, func(c *Config) { c.Batch = 2 })
			tb.inboxes[0].state.pace.limit = 2
			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			_, cmds := w.turn(false)
			require.Len(t, cmds, 2)
			w.crash(false)
			w = tb.addOwnWorker(tb.inboxes[0])
			tb.inboxes[0].state.pace.limit = 1
			require.Equal(t, fmt.Sprint(cmds[1]), strings.Fields(names(w))[0])
			require.Equal(t, fmt.Sprint(cmds[0]), fmt.Sprint(tb.ends[0].Cmd))

			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			_, cmds = w.turn(false)
			w.crash(false)
			w = tb.addOwnWorker(tb.inboxes[0])
			require.Equal(t, test.givenBack, names(w), "%v was the culprit", cmds)
		})
	}
}

func TestTheDisciplineMayBeChangedWhileCommandsWait(t *testing.T) {
	for name, test := range disciplines {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, nil)
			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			_, first := w.turn(false)
			require.Equal(t, "a", fmt.Sprint(first[0]))
			tb.inboxes[0].Settings().Order(test.d)
			require.Equal(t, test.switched, names(w))

			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			tb.inboxes[0].Settings().Order(queue.LIFO{})
			tb.inboxes[0].Settings().Order(test.d)
			require.Equal(t, test.want, names(w), "after another discipline")

			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			tb.inboxes[0].Settings().Order(nil)
			require.Equal(t, test.switchedBack, names(w))
			require.True(t, tb.inboxes[0].state.queue.plain, "first in, first out is the ring")
		})
	}
}

func TestCommandsGivenBackStayFirstWhenTheDisciplineChanges(t *testing.T) {
	for name, test := range disciplines {
		if _, fifo := test.d.(queue.FIFO); fifo || test.d == nil {
			continue // a ring does not distinguish commands given back from others
		}
		tb, w := newOrdered(t, test.d, func(c *Config) { c.Batch = 3 })
		tb.inboxes[0].state.pace.limit = 3
		require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
		_, cmds := w.turn(false)
		w.crash(false)
		w = tb.addOwnWorker(tb.inboxes[0])
		tb.inboxes[0].Settings().Order(queue.Deadline{})
		tb.inboxes[0].Settings().Order(queue.LIFO{})
		got := strings.Fields(names(w))
		require.Equal(t, fmt.Sprint(cmds[1:]), fmt.Sprint(got[:2]), name)
		require.Len(t, got, 4)
	}
}

// A command whose key panics has key zero, wherever the inbox asks for the key.
func TestACommandWhoseKeyPanicsHasKeyZero(t *testing.T) {
	bad := job{name: "x", panics: true}
	function := queue.PriorityOf(func(j job) int { return j.Priority() })
	tests := map[string]struct {
		d    queue.Discipline
		want string
	}{
		"priority": {queue.Priority{}, "b d c a x e"},
		"function": {function, "b d c a x e"},
		"deadline": {queue.Deadline{}, "c d e b a x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, test.d, func(c *Config) { c.Retry.Attempts = 3 })
			for i, e := range fiveJobs {
				if i == 1 {
					tb.submit(0, bad)
				}
				tb.submit(0, e.Load)
			}
			require.Equal(t, test.want, names(w), "submitted")
			es := append(append([]command.Envelope{fiveJobs[0]}, command.Envelope{Load: bad}), fiveJobs[1:]...)
			require.Equal(t, 6, tb.inboxes[0].Senders().HandOver(&Member{}, es, 0, false, false))
			require.Equal(t, test.want, names(w), "handed over")
			tb.inboxes[0].Settings().Order(nil)
			require.Equal(t, 6, tb.inboxes[0].Senders().HandOver(&Member{}, es, 0, false, false))
			tb.inboxes[0].Settings().Order(test.d)
			require.Equal(t, test.want, names(w), "by a change of the discipline")

			tb.submit(0, bad)
			w.turn(false)
			e := w.Batch[0]
			e.Failed()
			require.True(t, tb.inboxes[0].Book(&w.Member, &w.tally, &Retried{Command: e}), "a retry asks for the key too")
			w.n = 0
			w.turn(false)
			w.crash(true)
			w = tb.addOwnWorker(tb.inboxes[0])
			require.Equal(t, "x", names(w), "and a crash")
		})
	}
}

// switcher changes the discipline while it is asked for its priority.
type switcher struct {
	job

	inbox *Inbox
	to    queue.Discipline
}

func (c switcher) Priority() int {
	c.inbox.Settings().Order(c.to)
	return c.prio
}

// A key of one discipline means nothing to another: a negated priority is no deadline.
func TestAKeyFromAnotherDisciplineIsIgnored(t *testing.T) {
	for name, to := range map[string]queue.Discipline{"none": nil, "deadline": queue.Deadline{}, "LIFO": queue.LIFO{}} {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, queue.Priority{})
			late := job{name: "late", due: 1}
			if name == "LIFO" {
				late.name = "first"
			}
			tb.submit(0, late)
			es := []command.Envelope{{Load: switcher{job{name: "switcher", prio: math.MaxInt}, tb.inboxes[0], to}}}
			require.Equal(t, 1, tb.inboxes[0].Senders().HandOver(&Member{}, es, 0, false, false))
			want := "late switcher"
			if name == "LIFO" {
				want = "switcher first"
			}
			require.Equal(t, want, names(w))
		})
	}
}

func TestARetryTakesItsPlaceInTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, backoff := range []time.Duration{0, time.Second} {
			tb, w := newOrdered(t, queue.Priority{}, func(c *Config) {
				c.Retry = Retry{Attempts: 2, Backoff: backoff, Max: time.Minute}
			})
			tb.submit(0, job{name: "dear", prio: 5}, job{name: "cheap"}, job{name: "middling", prio: 2})
			w.turn(false)
			e := w.Batch[0]
			e.Failed()
			require.True(t, tb.inboxes[0].Book(&w.Member, &w.tally, &Retried{Command: e}))
			w.n = 0
			tb.pass(backoff)
			require.Equal(t, "dear middling cheap", names(w), backoff)
		}
	})
}

// A command that came back is not the one that a discipline knows as the oldest. In a queue that is first in, first out it is.
func TestANewOrderCallsAWorkerForACommandThatHasLingered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1, func(c *Config) {
			c.Batch, c.Linger, c.Discipline = 8, time.Second, queue.LIFO{}
		})
		w, w2 := tb.addWorker(), tb.addWorker()
		tb.submit(0, 1)
		w.turn(true)
		tb.pass(time.Second)
		w.turn(true)
		require.Equal(t, 1, w.n)
		tb.submit(0, 2)
		tb.inboxes[0].Book(&w.Member, &w.tally, Unequipped(slices.Clone(w.Batch[:1]), ErrStopped))
		w2.turn(true)
		require.Zero(t, w2.n, "it lingers for the second")
		woken := w2.woken
		tb.inboxes[0].Settings().Order(queue.FIFO{})
		require.Equal(t, woken+1, w2.woken)
		w2.turn(true)
		require.Equal(t, 2, w2.n)
	})
}

// With Linger a batch is given out when it is full, or when its oldest command has waited for so long.
func TestABatchLingersUntilItIsFullOrItsOldestCommandHasWaited(t *testing.T) {
	for name, shared := range map[string]bool{"own workers": false, "shared pool": true} {
		for _, mode := range dispatchModes {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, w := newLingering(t, shared, mode)
					second := tb.addWorker()
					if !shared {
						second = tb.addOwnWorker(tb.inboxes[0])
					}
					w.turn(true)
					tb.submit(0, 1)
					time.Sleep(6 * time.Millisecond)
					tb.submit(0, 2)
					require.Equal(t, []string{"-"}, second.trail(1), "another worker does not get it either")
					tb.pass(4*time.Millisecond - 1)
					require.Equal(t, []string{"-"}, second.trail(1))
					was := w.woken
					tb.pass(time.Nanosecond)
					if shared {
						require.Zero(t, was, "the shared pool was not given a token before")
						require.Equal(t, 1, w.woken, "ten milliseconds after the first")
					}
					require.Equal(t, []string{"A", "A"}, w.trail(1))
					require.Equal(t, []string{"-"}, w.trail(1))

					w.turn(true)
					tb.submitN(0, 5)
					require.Equal(t, []string{"A", "A", "A", "A"}, w.trail(1), "a full batch goes at once")
					require.Equal(t, []string{"-"}, w.trail(1), "one is left")
					require.Equal(t, []string{"-"}, second.trail(1))
					w.turn(true)
					tb.pass(10 * time.Millisecond)
					require.Equal(t, []string{"A", "-"}, w.trail(2))

					w.turn(true)
					tb.submitN(0, 1)
					tb.inboxes[0].Settings().Adjust(func(k *Knobs) { k.Linger = 0 })
					require.Equal(t, []string{"A", "-"}, w.trail(2), "it does not linger any more")
				})
			})
		}
	}
}

func newLingering(t *testing.T, shared bool, mode controller.Dispatch) (*testbed, *testWorker) {
	t.Helper()
	tb := newTestbed(t, 1, func(c *Config) { c.Batch = 4 })
	tb.pool.SetDispatch(mode)
	tb.inboxes[0].state.pace.limit = 1 // a batch that lingered is given out whole all the same
	tb.inboxes[0].Settings().Adjust(func(k *Knobs) { k.Linger = 10 * time.Millisecond })
	if shared {
		return tb, tb.addWorker()
	}
	tb.inboxes[0].Settings().Bind(nil)
	return tb, tb.addOwnWorker(tb.inboxes[0])
}

func TestAFullInboxDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, w := newLingering(t, true, controller.SharedFIFO)
		tb.inboxes[0].Settings().Adjust(func(k *Knobs) { k.Capacity = 2 })
		w.turn(true)
		tb.submitN(0, 2)
		require.Equal(t, []string{"A", "A"}, w.trail(1))
	})
}

// A drain waits for a lingering batch, but no longer than it lingers. Commands that come while the pipeline drains do not
// linger at all.
func TestADrainWaitsNoLongerThanABatchLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, w := newLingering(t, true, controller.SharedFIFO)
		w.turn(true)
		tb.submitN(0, 1)
		tb.inboxes[0].Phases().Close()
		tb.Draining.Store(true)
		tb.pass(10 * time.Millisecond)
		require.Equal(t, 1, w.woken)
		require.Equal(t, []string{"A"}, w.trail(1))
		w.turn(true)
		require.Len(t, tb.Quiet, 1)
		tb.inboxes[0].Senders().HandOver(&Member{}, []command.Envelope{{Load: 1}}, tb.Now(), false, false)
		require.Equal(t, 2, w.woken)
		require.Equal(t, []string{"A"}, w.trail(1))
	})
}

func TestSomeCommandsOfAHandOverGetATimestamp(t *testing.T) {
	tests := map[string]struct {
		limit int
		knobs func(*Knobs)
		order queue.Discipline
		want  int // how many of 100 get a timestamp
	}{
		"each, if a worker takes few at once":    {limit: 31, want: 100},
		"every other, if it takes more":          {limit: 32, want: 50},
		"one in sixteen, if it takes many":       {limit: 256, want: 7},
		"one in sixteen, if it takes very many":  {limit: 10_000, want: 7},
		"each, if batches linger":                {limit: 256, knobs: func(k *Knobs) { k.Linger = time.Second }, want: 100},
		"each, if they are not handled in order": {limit: 256, order: queue.LIFO{}, want: 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 1, func(c *Config) { c.Discipline, c.Capacity = test.order, 128 })
			in := tb.inboxes[0]
			in.state.pace.limit = test.limit
			if test.knobs != nil {
				in.Settings().Adjust(test.knobs)
			}
			es := make([]command.Envelope, 100)
			require.Equal(t, 100, in.Senders().HandOver(&Member{}, es, 1000, false, false))
			stamped := 0
			in.state.queue.line.Count(func(e *command.Envelope) bool {
				if d, known := e.Waited(1500); known {
					stamped++
					require.EqualValues(t, 500, d)
				}
				return false
			})
			require.Equal(t, test.want, stamped)
			require.EqualValues(t, 500, in.state.queue.waited(1500, 256))
			in.state.queue.line.Drop() // the oldest, which has a timestamp
			require.EqualValues(t, 500, in.state.queue.waited(1500, 256), "one of those behind it has a timestamp")
			in.state.queue.popInto(es)
			require.Zero(t, in.state.queue.fresh())
		})
	}
}

// Otherwise the command would still have the wrong timestamp when it is queued at last.
func TestACommandThatFindsNoFreeSlotGetsNoTimestamp(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Capacity = 3 })
	es := make([]command.Envelope, 6)
	require.Equal(t, 3, tb.inboxes[0].Senders().HandOver(&Member{}, es, 1000, false, false))
	for i := range es {
		_, known := es[i].Waited(1500)
		require.Equal(t, i < 3, known, "of command %d", i)
	}
}

func TestTheOldestHasWaitedAsLongAsThoseThatCameWithIt(t *testing.T) {
	for _, limit := range []int{1, 32, 256} {
		in := newTestbed(t, 1, func(c *Config) { c.Capacity = 128 }).inboxes[0]
		in.state.pace.limit = limit
		const n = 20
		for _, now := range []int64{1000, 5000} {
			require.Equal(t, n, in.Senders().HandOver(&Member{}, make([]command.Envelope, n), now, false, false))
		}
		for i := range 2 * n {
			want := 5000
			if i >= n {
				want = 1000
			}
			require.EqualValues(t, want, in.state.queue.waited(6000, 256), "of command %d, limit %d", i, limit)
			in.state.queue.line.Drop()
		}
	}
}

func TestTheOldestHasWaitedAtLeastAsLongAsTheNextWithATimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1, func(c *Config) { c.Capacity, c.Batch = 1024, 256 })
		in := tb.inboxes[0]
		in.state.pace.limit = 256
		tb.submitN(0, 100)
		time.Sleep(time.Second)
		tb.submitN(0, 200)
		time.Sleep(time.Second)
		require.Equal(t, 2*time.Second, Snapshot([]*Inbox{in})[0].Queue.Oldest)
		in.state.queue.line.Drop() // the one with a timestamp
		require.Equal(t, time.Second, Snapshot([]*Inbox{in})[0].Queue.Oldest)
	})
}

func TestCommandsHandedOverWithoutATimeGetNoTimestamp(t *testing.T) {
	in := newTestbed(t, 1, func(*Config) {}).inboxes[0]
	require.Equal(t, 3, in.Senders().HandOver(&Member{}, make([]command.Envelope, 3), 0, false, false))
	require.Zero(t, in.state.queue.waited(1500, 256))
}

// The linger time counts from when the command was queued, not from when it was given back.
func TestCommandsGivenBackDoNotLingerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, w := newLingering(t, true, controller.SharedFIFO)
		tb.submitN(0, 4)
		w.trail(1)
		time.Sleep(10 * time.Millisecond)
		w.crash(false)
		w = tb.addWorker()
		require.Equal(t, []string{"A", "A", "A"}, w.trail(1))
	})
}

// Otherwise one command that fails again and again would have all others handled in small batches.
func TestARetryLingersLikeANewCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, w := newLingering(t, false, controller.SharedFIFO)
		tb.inboxes[0].state.cfg.Retry.Attempts = 2
		tb.submitN(0, 4)
		_, cmds := w.turn(false)
		require.Len(t, cmds, 4)
		w.Batch[0].Failed()
		require.True(t, tb.inboxes[0].Book(&w.Member, &w.tally, &Retried{Command: w.Batch[0]}))
		w.tally.OK = 3
		_, cmds = w.turn(true)
		require.Empty(t, cmds)
		tb.pass(10*time.Millisecond - 10*time.Microsecond)
		require.Zero(t, w.woken)
		tb.pass(40 * time.Microsecond)
		require.Equal(t, 1, w.woken)
		_, cmds = w.turn(true)
		require.Len(t, cmds, 1)
		require.Equal(t, 1, w.Batch[0].Tries())
	})
}

// The timestamp of an envelope wraps around, so MostLinger bounds the linger time.
func TestNoCommandLingersForEver(t *testing.T) {
	for name, tried := range map[string]bool{"retried": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, w := newLingering(t, false, controller.SharedFIFO)
				tb.inboxes[0].state.cfg.Retry.Attempts = 2
				tb.inboxes[0].Settings().Adjust(func(k *Knobs) { k.Linger = 30 * 24 * time.Hour })
				tb.submitN(0, 4)
				_, cmds := w.turn(false)
				require.Len(t, cmds, 4)
				if tried {
					w.Batch[0].Failed()
					require.True(t, tb.inboxes[0].Book(&w.Member, &w.tally, &Retried{Command: w.Batch[0]}))
					w.tally.OK = 3
				} else {
					w.tally.OK = 4
					tb.submitN(0, 1)
				}
				_, cmds = w.turn(true)
				require.Empty(t, cmds)
				tb.pass(MostLinger - 20*time.Microsecond)
				require.Zero(t, w.woken)
				tb.pass(40 * time.Microsecond)
				require.Equal(t, 1, w.woken)
				_, cmds = w.turn(true)
				require.Len(t, cmds, 1)
			})
		})
	}
}

func TestPacksOfOneAreHandledOneByOneWhateverTheDiscipline(t *testing.T) {
	for name, test := range disciplines {
		tb, w := newOrdered(t, test.d, func(c *Config) { c.Batch = 3 })
		tb.inboxes[0].state.pace.limit = 3
		require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
		w.turn(false)
		for i := range w.Batch[:w.n] {
			w.Batch[i].SetPack(1)
		}
		tb.inboxes[0].Book(&w.Member, &w.tally, &Crashed{Rest: append([]command.Envelope(nil), w.Batch[:w.n]...), Err: ErrStopped})
		tb.inboxes[0].Yield(&w.Member)
		w = tb.addOwnWorker(tb.inboxes[0])
		tb.inboxes[0].state.pace.limit = 3
		var sizes []int
		for {
			in, cmds := w.turn(false)
			if in == nil {
				break
			}
			sizes = append(sizes, len(cmds))
		}
		if sizes[2] == 1 && len(sizes) == 5 { // the last two may be taken one by one, as fair shares
			sizes = append(sizes[:3], 2)
		}
		require.Equal(t, []int{1, 1, 1, 2}, sizes, name)
		require.Zero(t, tb.inboxes[0].state.queue.packed)
	}
}

// A batch crashes, each of its commands is to be handled alone, and then the discipline changes.
func TestPacksOfOneStayAloneWhenTheDisciplineChanges(t *testing.T) {
	for name, test := range disciplines {
		t.Run(name, func(t *testing.T) {
			tb, w := newOrdered(t, nil, func(c *Config) { c.Batch = 3 })
			tb.inboxes[0].state.pace.limit = 3
			require.Equal(t, 5, tb.inboxes[0].Senders().HandOver(&Member{}, fiveJobs, 0, false, false))
			_, cmds := w.turn(false)
			require.Len(t, cmds, 3)
			for i := range w.Batch[:w.n] {
				w.Batch[i].SetPack(1)
			}
			tb.inboxes[0].Book(&w.Member, &w.tally, &Crashed{Rest: append([]command.Envelope(nil), w.Batch[:w.n]...), Err: ErrStopped})
			tb.inboxes[0].Yield(&w.Member)
			w = tb.addOwnWorker(tb.inboxes[0])
			tb.inboxes[0].Settings().Order(test.d)
			for {
				tb.inboxes[0].state.pace.limit = 3
				_, cmds := w.turn(false)
				if cmds == nil {
					break
				}
				for i := range cmds {
					require.False(t, len(cmds) > 1 && w.Batch[i].Pack() > 0, "%v are in one batch", cmds)
				}
			}
			require.Zero(t, tb.inboxes[0].state.queue.packed)
		})
	}
}

func TestSubmitFreeTakesAsManyCommandsAsThereAreFreeSlotsThatNoOtherCommandWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1, func(c *Config) { c.Capacity, c.Batch = 4, 4 })
		in := tb.inboxes[0]
		in.state.pace.limit = 4
		w := tb.addOwnWorker(in)
		require.Equal(t, 4, in.SubmitFree(t.Context(), nil, 7, func(i int) any { return i }))
		require.Zero(t, in.SubmitFree(t.Context(), nil, 3, func(int) any { panic("there is no free slot") }))
		go func() { assert.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 4})) }()
		synctest.Wait()
		_, first := w.turn(false)
		require.Equal(t, []any{0, 1, 2, 3}, first)
		require.Equal(t, 2, in.SubmitFree(t.Context(), nil, 2, func(i int) any { return 5 + i }))
		_, rest := w.turn(false)
		require.Equal(t, []any{4, 5, 6}, rest)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Zero(t, in.SubmitFree(ended, nil, 1, func(int) any { panic("the context has ended") }))
		require.Zero(t, in.Len())
		w.turn(true)
	})
}

// The pause is computed in constant time, however often a command was tried.
func TestThePauseOfARetryDoublesUpToItsMaximum(t *testing.T) {
	p := Retry{Backoff: time.Second, Max: time.Minute}
	for tries, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, math.MaxInt: time.Minute,
	} {
		require.Equal(t, want, p.pause(tries, .5), tries)
	}
	require.Zero(t, Retry{Max: time.Minute}.pause(math.MaxInt, .5), "no backoff")
	longest := Retry{Backoff: 1, Max: math.MaxInt64}
	require.EqualValues(t, 1<<61, longest.pause(62, .5))
	require.EqualValues(t, math.MaxInt64, longest.pause(64, .5))
	require.Equal(t, 2*time.Second, Retry{Backoff: time.Hour, Max: 2 * time.Second}.pause(1, .5))
}

func TestACommandThatWaitsForItsRetryKeepsItsSlot(t *testing.T) {
	for rule, want := range map[Overflow]string{Reject: "d", DropNewest: "d", DropOldest: "e"} {
		synctest.Test(t, func(t *testing.T) {
			tb, w := newOrdered(t, nil, func(c *Config) {
				c.Capacity, c.Overflow, c.Retry = 3, rule, Retry{Attempts: 2, Backoff: time.Second, Max: time.Second}
			})
			in := tb.inboxes[0]
			for _, name := range []string{"a", "b"} {
				tb.submit(0, name)
				w.turn(false)
				e := w.Batch[0]
				e.Failed()
				require.True(t, in.Book(&w.Member, &w.tally, &Retried{Command: e}))
				w.n = 0
			}
			tb.submit(0, "c")
			w.turn(false)
			require.Positive(t, in.state.free())
			tb.submit(0, "d")
			require.Zero(t, in.state.free())
			err := submitTo(t.Context(), in, "e")
			require.Equal(t, rule == Reject, errors.Is(err, ErrFull), err)
			tb.pass(2 * time.Second)
			require.Equal(t, want+" a b", names(w), "%v: a command that waits for its retry is not dropped", rule)
			require.Zero(t, in.Load())
		})
	}
}
