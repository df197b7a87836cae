package link

import "time"

// Timed is a behaviour that acts at times, without a command: it closes a
// window, or forgets idle keys. Timers may be called by any goroutine. It calls no code of users, and returns after a bounded time,
// however much the behaviour has. Nothing is counted for it.
type Timed interface {
	Timers() Timers
}

// Timers are the open windows of a stage, and its next acts without a command.
type Timers struct {
	Windows *Windows // nil if the stage has none
	Ticks   []Tick   // of each kind the next one
}

// MostWindows is how many windows a behaviour looks at for [Timers].
const MostWindows = 4096

// Windows are the open windows of a stage.
type Windows struct {
	Open     int
	Commands int       // that the windows have; some may have left the stage already
	Oldest   time.Time // when the first one was opened; zero if none is open
	Mark     time.Time // the watermark, by which windows of event time close; zero if there is none
	// Whole reports whether Commands, Oldest and the ticks are of all windows.
	// Otherwise they are of MostWindows of them.
	Whole bool
}

// Tick is an act of a stage at a time.
type Tick struct {
	What string // such as "close a window"
	At   time.Time
}
