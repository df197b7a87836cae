// Package prose holds a test only: it scans the project's comments, messages,
// test names and pages for words that plain technical English does not need.
package prose
