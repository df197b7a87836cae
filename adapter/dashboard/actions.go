package dashboard

// verbs returns the names of the actions.
func verbs() []string { return []string{} }
