package queue

// How much room a store has, in slots; always a power of two, or none.
const (
	// first is what the first item brings.
	first = 16
	// kept is never let go. A stage of the usual capacity fits in, so its queue
	// allocates nothing however it fills and empties.
	kept = 1024
)

// grown is how many slots a store of that size should have for need items.
func grown(size, need int) int {
	size = max(first, size)
	for size < need {
		size *= 2
	}
	return size
}

// shrunk is how many slots a store of that size should have when n items are left.
// It is not less than half full then, and at least so many items must come or go
// before it is resized again as were moved: that pays for it.
func shrunk(size, n int) int {
	if size <= kept || n > size/8 {
		return size
	}
	return max(kept, grown(first, 2*n))
}
