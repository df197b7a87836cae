package main

import (
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"

	"github.com/golda-dev/golda/examples/images/picture"
)

// faults makes a share of the images crash, each in a random stage. The
// randomness depends on the seed and the name of the file, so the same run
// crashes in the same places.
type faults struct {
	seed   uint64
	share  float64
	stages []string
}

// victim returns the stage in which an image crashes, or "" if it does not.
func (f faults) victim(path string) string {
	name := fnv.New64a()
	_, _ = name.Write([]byte(filepath.Base(path))) // a hash never fails
	chance := rand.New(rand.NewPCG(f.seed, name.Sum64()))
	if chance.Float64() >= f.share {
		return ""
	}
	return f.stages[chance.IntN(len(f.stages))]
}

// stageNames returns the names of the seven stages, in order.
func stageNames() []string {
	names := []string{"load"}
	for _, f := range picture.Filters() {
		names = append(names, f.Stage)
	}
	return append(names, "save")
}
