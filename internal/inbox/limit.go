package inbox

import "github.com/golda-dev/golda/internal/rate"

// limit is the rate of the whole inbox.
type limit struct {
	rate.Bucket
	rate.Delay
}

// newLimit returns a limit whose bucket is full, nil if there is no bound.
func newLimit(r rate.Limit) *limit {
	if b := rate.New(r); b != nil {
		return &limit{Bucket: *b}
	}
	return nil
}
