package line

// Rank says where a command belongs in a line. The zero Rank says nothing.
type Rank struct {
	// Key is equal for commands that belong together: the hash of a key, or the
	// number of a method. 0 is none; see [NoKey].
	Key uint64
	// Order is the command's place among others: what a discipline says, or the
	// number of a command in an ordered stage.
	Order int64
}

// NoKey is the key of a command that has none: the function for the key
// panicked. It crashes in the place of its handler. No order is owed between
// such commands, and no handler is called for them, so they wait for nothing.
const NoKey = 0

// rankAt returns the rank of one of many commands.
func rankAt(ranks []Rank, i int) Rank {
	if i < len(ranks) {
		return ranks[i]
	}
	return Rank{}
}
