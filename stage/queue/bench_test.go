package queue_test

import (
	"fmt"
	"testing"

	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// envelope is as large as what a stage queues.
type envelope struct {
	cmd   any
	who   *int
	since int64
	flags uint64
}

// letter is what is queued.
var letter = envelope{cmd: "a command", who: new(int), since: 1, flags: 1}

// lengths are how many wait meanwhile.
var lengths = []int{0, 64, 1000, 100_000}

// BenchmarkPushPop pushes one and pops one: the line keeps its length. The ring is what
// a stage would use if there were but one discipline.
func BenchmarkPushPop(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			var r ring.Ring[envelope]
			for range n {
				r.Push(letter)
			}
			hand := make([]envelope, 1)
			for b.Loop() {
				r.Push(letter)
				r.PopInto(hand)
			}
		})
		for _, name := range queue.Names() {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				line, keys := filled(b, name, n)
				hand := make([]envelope, 1)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					line.Push(letter, keys[i&1023])
					line.PopInto(hand)
					i++
				}
			})
		}
	}
}

// BenchmarkBatch is a batch of 64 in and out; the time is that of the batch.
func BenchmarkBatch(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			var r ring.Ring[envelope]
			for range n {
				r.Push(letter)
			}
			hand := make([]envelope, 64)
			for b.Loop() {
				r.PushAll(hand)
				r.PopInto(hand)
			}
		})
		for _, name := range queue.Names() {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				line, keys := filled(b, name, n)
				hand := make([]envelope, 64)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					line.PushAll(hand, keys[i&15*64:][:64])
					line.PopInto(hand)
					i++
				}
			})
		}
	}
}

// BenchmarkDrop is a full line that drops its oldest for each that comes.
func BenchmarkDrop(b *testing.B) {
	for _, name := range queue.Names() {
		b.Run(name, func(b *testing.B) {
			line, keys := filled(b, name, 1000)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				line.Drop()
				line.Push(letter, keys[i&1023])
				i++
			}
		})
	}
}

// filled is a line in which n wait, and keys in no order for those to come.
func filled(b *testing.B, name string, n int) (*queue.Line[envelope], []queue.Key) {
	b.Helper()
	d, err := queue.ByName(name)
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]queue.Key, 1024)
	for i := range keys {
		keys[i] = queue.Key(i * 7919 % 1024)
	}
	line := queue.New[envelope](d)
	for i := range n {
		line.Push(letter, keys[i&1023])
	}
	return line, keys
}
