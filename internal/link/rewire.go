package link

// Rewire has a port, a *behaviour.Port of any command type, lead to another
// target that takes such commands. Package behaviour sets it, so that a port
// has no method for it: only a pipeline knows which of its handlers still
// forward to the old target.
var Rewire func(port, to any)
