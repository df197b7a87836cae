// Package face has no code of its own. Its test holds the number of names that
// each public package exports, and keeps internal types out of their
// signatures.
package face
