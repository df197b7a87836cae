package policy

// Preset names a policy as a known system implemented it. The documentation of
// each policy says which parameters its presets change. A parameter that is set
// overrides the preset's value. The zero Preset is the policy with its own
// defaults.
type Preset string

// The presets. Not every policy has all of them.
const (
	// Cruz is the controller of the dissertation of Cruz (2015), exactly as
	// listed.
	Cruz Preset = "cruz"
	// Measured is the program behind the tables of that dissertation, where it
	// differs from the listings: a visit has a bound.
	Measured Preset = "measured"
	// Welsh is Sandstorm, the program of Welsh (2001), with its defaults.
	Welsh Preset = "welsh"
	// Gordon is Yield, the library behind Gordon's "Stage scheduling for
	// CPU-intensive servers" (UCAM-CL-TR-781, 2010).
	Gordon Preset = "gordon"
	// Areias is the controller of the article of Areias and Neto (2025), as its
	// text describes it.
	Areias Preset = "areias"
)

// name returns a policy's name, with the preset if there is one: "seda:cruz".
func (p Preset) name(policy string) string {
	if p == "" {
		return policy
	}
	return policy + ":" + string(p)
}
