package command

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/link"
)

// A type has boxes if and only if an interface holds its values at the cost of an allocation.
func TestOnlyTypesThatAnInterfaceCannotHoldHaveBoxes(t *testing.T) {
	type pointer struct{ *int }
	type nested struct{ p [1]pointer }
	hasBoxes(t, 1<<20, true)
	hasBoxes(t, "text", true)
	hasBoxes(t, []int{1}, true)
	hasBoxes(t, [10]int{}, true)
	hasBoxes(t, struct{ a, b *int }{new(int), nil}, true)
	hasBoxes(t, [2]*int{new(int)}, true)
	hasBoxes(t, struct{ b byte }{1}, true)
	hasBoxes(t, 1.5, true)
	hasBoxes(t, [1]int64{1 << 20}, true)

	hasBoxes(t, new(int), false)
	hasBoxes(t, map[int]int{}, false)
	hasBoxes(t, make(chan int), false)
	hasBoxes(t, func() {}, false)
	hasBoxes(t, unsafe.Pointer(new(int)), false)
	hasBoxes(t, pointer{new(int)}, false)
	hasBoxes(t, nested{[1]pointer{{new(int)}}}, false)
	hasBoxes(t, struct {
		_ struct{}
		p *int
	}{p: new(int)}, false)
	hasBoxes(t, any(1<<20), false)
	hasBoxes(t, error(nil), false)
	hasBoxes(t, struct{}{}, false)
	hasBoxes(t, [0]int{}, false)
	hasBoxes(t, true, false)
	hasBoxes(t, byte(7), false)
	hasBoxes(t, int8(-7), false)
}

var anything any

func hasBoxes[C any](t *testing.T, cmd C, want bool) {
	t.Helper()
	assert.Equal(t, want, NewBoxes[C]() != nil, "%T", cmd)
	if _, single := any(cmd).(struct{ b byte }); !single { // the runtime may or may not have them already
		allocates := testing.AllocsPerRun(10, func() { anything = convert(cmd) }) > 0
		assert.Equal(t, want, allocates, "%T", cmd)
	}
}

//go:noinline
func convert[C any](cmd C) any { return cmd }

func TestABoxThatIsFreeCannotBeUsed(t *testing.T) {
	boxes := NewBoxes[string]()
	for name, use := range map[string]func(load any){
		"opened":         func(load any) { link.Open[string](load) },
		"shown":          func(load any) { link.Bare(load) },
		"recycled again": func(load any) { boxes.Recycle([]any{load}) },
		"in an envelope": func(load any) { e := Envelope{Load: load}; e.Unbox() },
	} {
		t.Run(name, func(t *testing.T) {
			load, other := boxes.Load("a"), boxes.Load("b")
			boxes.Recycle([]any{load, other})
			require.PanicsWithValue(t, "link: a box is used that is free", func() { use(load) })
			require.PanicsWithValue(t, "link: a box is used that is free", func() { use(other) })
		})
	}
}

func TestLoadsThatAreNoBoxesAreNotRecycled(t *testing.T) {
	NewBoxes[string]().Recycle([]any{nil, "a", 7, new(string), NewBoxes[int]().Load(7), (*Boxes[*int])(nil).Load(new(int))})
}

func TestALoadOfAnotherTypeIsTheZeroCommand(t *testing.T) {
	require.Empty(t, link.Open[string](7))
	require.Empty(t, link.Open[string](NewBoxes[int]().Load(7)))
	require.Empty(t, link.Open[string](nil))
	require.NoError(t, link.Open[error](nil))
	require.Equal(t, any(7), link.Open[any](7))
	require.Equal(t, "a", link.Open[string]("a"), "a command without a box")
	require.Equal(t, 7, link.Bare(7))
	require.Nil(t, link.Bare(nil))
}

// A user's command may look like a box.
func TestACommandWithAMethodBareIsNoBox(t *testing.T) {
	require.Equal(t, lookalike{}, link.Bare(lookalike{}))
}

type lookalike struct{}

func (lookalike) Bare() any { return "wrong" }
func (lookalike) bare() any { return "wrong" } //nolint:unused // that is the test

func TestARecycledBoxKeepsNothingAlive(t *testing.T) {
	boxes := NewBoxes[[]int]()
	load := boxes.Load([]int{1})
	at := load.(*link.Box[[]int]).Command()
	boxes.Recycle([]any{load})
	require.Nil(t, *at)
}

func TestAnUnboxedEnvelopeHasTheCommandOnly(t *testing.T) {
	e := Envelope{Load: NewBoxes[string]().Load("a")}
	require.Equal(t, "a", e.Command())
	e.Unbox()
	require.Equal(t, any("a"), e.Load)
}

func TestARetiredBoxIsNotUsedAgain(t *testing.T) {
	defer Retire()()
	boxes := NewBoxes[int]()
	seen := map[any]bool{}
	for i := range 1000 {
		load := boxes.Load(i)
		require.False(t, seen[load])
		seen[load] = true
		boxes.Recycle([]any{load})
	}
}

// The model is a map from the loads that are in use to their commands.
func TestEachLoadHasItsOwnCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boxes := NewBoxes[[3]int]()
		inUse := map[any][3]int{}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"load": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					next++
					cmd := [3]int{next, -next, 7}
					load := boxes.Load(cmd)
					if _, twice := inUse[load]; twice {
						t.Fatalf("a box has two commands: %v", cmd)
					}
					inUse[load] = cmd
				}
			},
			"recycle": func(t *rapid.T) {
				n := rapid.IntRange(0, 20).Draw(t, "n")
				var loads []any
				for load := range inUse {
					if len(loads) == n {
						break
					}
					loads = append(loads, load)
					delete(inUse, load)
				}
				boxes.Recycle(loads)
			},
			"": func(t *rapid.T) {
				for load, cmd := range inUse {
					if got := link.Open[[3]int](load); got != cmd {
						t.Fatalf("%v has become %v", cmd, got)
					}
				}
			},
		})
	})
}

// Some goroutines load and others recycle, so that boxes move between processors.
func TestBoxesAreGivenOutOnceByManyGoroutines(t *testing.T) {
	boxes := NewBoxes[checked]()
	batches := make(chan []any, 8)
	var loading, recycling sync.WaitGroup
	for g := range 4 {
		loading.Go(func() {
			for i := range 500 {
				batch := make([]any, 1+i%64)
				for k := range batch {
					batch[k] = boxes.Load(newChecked(g<<20 | i<<8 | k))
				}
				batches <- batch
			}
		})
		recycling.Go(func() {
			for batch := range batches {
				for _, load := range batch {
					if c := link.Open[checked](load); !c.right() {
						t.Errorf("mixed up: %v", c)
					}
				}
				boxes.Recycle(batch)
			}
		})
	}
	loading.Wait()
	close(batches)
	recycling.Wait()
}

// checked is a value that can tell whether it is a mixture of two.
type checked struct {
	n    int
	text string
	pad  [6]int
	sum  int
}

func newChecked(n int) checked {
	c := checked{n: n, text: strconv.Itoa(n), sum: 7 * n}
	for i := range c.pad {
		c.pad[i] = n + i
	}
	return c
}

func (c checked) right() bool { return c == newChecked(c.n) && c.n >= 0 }

func BenchmarkBoxes(b *testing.B) {
	for _, boxed := range []bool{false, true} {
		b.Run(fmt.Sprintf("boxed=%v", boxed), func(b *testing.B) {
			var boxes *Boxes[[10]int]
			if boxed {
				boxes = NewBoxes[[10]int]()
			}
			loads := make([]any, 64)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				i := n % len(loads)
				loads[i] = boxes.Load([10]int{n})
				if i == len(loads)-1 && boxed {
					boxes.Recycle(loads)
				}
			}
		})
	}
}

func TestABoxIsClearedIfItsCommandHasPointers(t *testing.T) {
	type plain struct {
		_ [3]uint8
		_ struct{ x, y float64 }
	}
	cleared := map[any]bool{
		1: false, 1.5: false, 2i: false, plain{}: false, [2]plain{}: false, [0]string{}: false, uintptr(1): false,
		"": true, [1]string{}: true, struct {
			a plain
			b *int
		}{}: true, struct{ a any }{}: true, unsafe.Pointer(nil): true,
	}
	for v, want := range cleared {
		require.Equal(t, want, hasPointers(reflect.TypeOf(v)), "%T", v)
	}
	texts := NewBoxes[string]()
	load := texts.Load("text").(*link.Box[string])
	texts.Recycle([]any{load})
	load.Take()
	require.Empty(t, *load.Command())
}
