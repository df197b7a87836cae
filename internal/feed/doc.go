// Package feed has what package source and the feeds of a pipeline share: where a source is, and up to where the commands
// that it submitted have ended. Source reaches it through the context that the feed gives it.
package feed
