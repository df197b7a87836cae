package queue_test

import (
	"fmt"
	"testing"

	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// envelope is as large as the items that a stage queues.
type envelope struct {
	cmd    any
	caller *int
	since  int64
	flags  uint64
}

// queued is the item that is queued.
var queued = envelope{cmd: "a command", caller: new(int), since: 1, flags: 1}

// lengths are how many items wait meanwhile.
var lengths = []int{0, 64, 1000, 100_000}

// BenchmarkPushPop pushes one item and pops one: the line keeps its length. The ring is what a stage would use if there
// were only one discipline.
func BenchmarkPushPop(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			var r ring.Ring[envelope]
			for range n {
				r.Push(queued)
			}
			batch := make([]envelope, 1)
			for b.Loop() {
				r.Push(queued)
				r.PopInto(batch)
			}
		})
		for _, name := range queue.Names() {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				line, keys := filled(b, name, n)
				batch := make([]envelope, 1)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					line.Push(queued, keys[i&1023])
					line.PopInto(batch)
					i++
				}
			})
		}
	}
}

// BenchmarkBatch pushes and pops a batch of 64; the time is that of the batch.
func BenchmarkBatch(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			var r ring.Ring[envelope]
			for range n {
				r.Push(queued)
			}
			batch := make([]envelope, 64)
			for b.Loop() {
				r.PushAll(batch)
				r.PopInto(batch)
			}
		})
		for _, name := range queue.Names() {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				line, keys := filled(b, name, n)
				batch := make([]envelope, 64)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					line.PushAll(batch, keys[i&15*64:][:64])
					line.PopInto(batch)
					i++
				}
			})
		}
	}
}

// BenchmarkDrop drops the oldest item of a full line for each new one.
func BenchmarkDrop(b *testing.B) {
	for _, name := range queue.Names() {
		b.Run(name, func(b *testing.B) {
			line, keys := filled(b, name, 1000)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				line.Drop()
				line.Push(queued, keys[i&1023])
				i++
			}
		})
	}
}

// filled returns a line in which n items wait, and keys in random order for further items.
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
		line.Push(queued, keys[i&1023])
	}
	return line, keys
}
