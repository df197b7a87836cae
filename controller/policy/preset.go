package policy

// Preset names a policy as a known system had it. What a preset changes is said
// where the policy is; parameters that are given count for more than the
// preset's. The zero Preset is the policy with its own defaults.
type Preset string

// The presets that there are. Not every policy has every one of them.
const (
	// Cruz is the controller of the dissertation of Cruz (2015), to the letter.
	Cruz Preset = "cruz"
	// Welsh is Sandstorm, the program of Welsh (2001), with its defaults.
	Welsh Preset = "welsh"
	// Gordon is Yield, the library behind Gordon's "Stage scheduling for CPU-intensive
	// servers" (UCAM-CL-TR-781, 2010).
	Gordon Preset = "gordon"
)

// name is a policy's name, with the preset if there is one: "seda:cruz".
func (p Preset) name(policy string) string {
	if p == "" {
		return policy
	}
	return policy + ":" + string(p)
}
