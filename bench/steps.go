package main

import (
	"fmt"
	"runtime"
	"time"
)

// capacity is how many commands wait before a stage in implementations with
// bounds: Golda's default.
const capacity = 1024

// deepStages is the length of W12's line.
const deepStages = 500

// steps makes the steps of a work's line.
type steps func(order) []step[*parcel]

// plainSteps returns stages that do nothing.
func plainSteps(n, workers int) steps {
	return func(order) []step[*parcel] { return nothings[*parcel](n, workers) }
}

func nothings[C any](n, workers int) []step[C] {
	all := make([]step[C], n)
	for i := range all {
		all[i] = step[C]{name: fmt.Sprintf("s%d", i+1), workers: workers, do: nothing[C]}
	}
	return all
}

//go:noinline
func nothing[C any](C) {}

func spinSteps(o order) []step[*parcel] {
	all := nothings[*parcel](5, 1)
	for i := range all {
		all[i].do = func(*parcel) { runtime.KeepAlive(spin(o.Spin)) }
	}
	return all
}

const nap = 5 * time.Millisecond

func sleepSteps(order) []step[*parcel] {
	return []step[*parcel]{{name: "sleep", workers: 64, do: func(*parcel) { time.Sleep(nap) }}}
}

func fanSteps(order) []step[*parcel] {
	all := nothings[*parcel](3, 1)
	all[1].lanes = 4
	return all
}
