//go:build !race

package transaction

const raced = false
