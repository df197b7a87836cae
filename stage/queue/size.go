package queue

// The sizes of a store, in slots; always a power of two, or zero.
const (
	// first is the size after the first item.
	first = 16
	// kept is the size below which a store never shrinks. It fits a stage of
	// the usual capacity, so that the queue of such a stage allocates nothing
	// however it fills and empties.
	kept = 1024
)

// grown returns how many slots a store of the given size should have for need
// items.
func grown(size, need int) int {
	size = max(first, size)
	for size < need {
		size *= 2
	}
	return size
}

// shrunk returns how many slots a store of the given size should have when n
// items are left. A store that shrinks is at least half full afterwards. Before
// it is resized again, at least as many items must arrive or leave as were
// moved, so the cost of moving is amortized.
func shrunk(size, n int) int {
	if size <= kept || n > size/8 {
		return size
	}
	return max(kept, grown(first, 2*n))
}
