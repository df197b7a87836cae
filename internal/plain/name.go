package plain

import (
	"fmt"
	"strings"
)

// LongestName is how many bytes the name of a stage, a port, a group, a feed or
// a pipeline may have: names are in each error, log line, metric and drawing.
const LongestName = 255

// NameTooLong is the problem of a longer name.
var NameTooLong = fmt.Sprintf("the name is longer than %d bytes", LongestName)

// Name returns a name, or the start of one that is too long. The start is one
// byte longer than a name may be, so that it is refused as the whole name is.
func Name(name string) string {
	if len(name) <= LongestName {
		return name
	}
	start := name[:LongestName+1-len("...")]
	return start + strings.Repeat(".", LongestName+1-len(start))
}
