package stagetest

import "time"

// EndsWithin sets how long a test may take to end after its pipeline was stopped hard.
func EndsWithin(d time.Duration) { endsWithin = d }
