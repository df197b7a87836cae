package controller

import "time"

// MinInterval is the shortest time between two ticks. A controller that asks for
// less gets this: a slip in a parameter must not make a pipeline spin.
const MinInterval = time.Millisecond

// Decisions is where a controller says what it wants. The zero value is ready
// and wants nothing; Reset makes a used one so again and keeps its memory.
//
// Every method sets and none adds, and of two wishes for one knob the later wins.
// So a decision that is applied twice does no harm.
//
// Decisions is not safe for concurrent use.
type Decisions struct {
	interval time.Duration // zero: nothing was said
	wishes   []wish        // one for each stage, in the order first spoken of
	place    map[StageID]int
}

// wish is a number of workers that a stage should have.
type wish struct {
	stage   StageID
	workers int
	why     string
}

// Every says how long after this call the controller wants to be asked again,
// and so on from there until it says otherwise. A controller that never says
// is never asked by the clock. Less than [MinInterval] counts as MinInterval.
func (d *Decisions) Every(interval time.Duration) {
	d.interval = max(interval, MinInterval)
}

// Workers says that a stage should have n workers, and why: a few words for the
// journal, with numbers, such as "queue 120 > 100 for 3 samples".
func (d *Decisions) Workers(s StageID, n int, why string) {
	w := wish{stage: s, workers: n, why: why}
	if i, ok := d.place[s]; ok {
		d.wishes[i] = w
		return
	}
	if d.place == nil {
		d.place = make(map[StageID]int)
	}
	d.place[s] = len(d.wishes)
	d.wishes = append(d.wishes, w)
}

// Interval is what was last said with Every, and zero if nothing was: the
// interval in force stays.
func (d *Decisions) Interval() time.Duration { return d.interval }

// Wants tells how many workers were wanted for a stage, and why; ok is false if
// nothing was said about it. The number is as it was said, not yet held to the
// stage's bounds.
func (d *Decisions) Wants(s StageID) (n int, why string, ok bool) {
	i, ok := d.place[s]
	if !ok {
		return 0, "", false
	}
	return d.wishes[i].workers, d.wishes[i].why, true
}

// Reset forgets all that was said.
func (d *Decisions) Reset() {
	d.interval = 0
	clear(d.wishes) // let go of the reasons
	d.wishes = d.wishes[:0]
	clear(d.place)
}
