package window

// NeedsCommands returns how many commands close a window of the stage, if only
// commands do; 0 if a time may close it, or commands whose sizes are not known.
func (s *collector[K, V, C]) NeedsCommands() int {
	b := &s.bounds
	switch {
	case b.Time > 0 || b.Every > 0 || b.Idle > 0 || b.Bytes > 0 || s.whole != nil || s.gathers:
		return 0
	default:
		return b.Count
	}
}
