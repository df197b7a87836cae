package main

import (
	"fmt"
	"regexp"
	"strings"
)

// notes returns the section of a version in a changelog, without its heading.
func notes(changelog, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\].*\n`)
	at := heading.FindStringIndex(changelog)
	if at == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: write it in the words of a user, from the section Unreleased", "## ["+strings.TrimPrefix(version, "v")+"]")
	}
	text := changelog[at[1]:]
	if next := regexp.MustCompile(`(?m)^## `).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("CHANGELOG.md has an empty section of %s", version)
	}
	return text + "\n", nil
}
