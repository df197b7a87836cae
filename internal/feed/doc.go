// Package feed is shared by package source and the feeds of a pipeline. It
// knows the position of a source, and the position up to which its commands
// have ended. Source reaches it through the context that the feed gives it.
package feed
