// Package cookbook has the recipes of docs/cookbook.md. Each is an example that
// runs as a test.
package cookbook
