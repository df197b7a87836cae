package inbox

import "github.com/golda-dev/golda/stage/reason"

const (
	rejectedFull = iota
	rejectedClosed
	rejectedCancelled
	rejectedType
	rejectedDisabled
	rejectedRate
	rejectedPolicy
	rejectedMaxInFlight
	rejectedReasons
)

const (
	shedFull = iota
	shedNewest
	shedOldest
	shedDisabled
	shedExpired
	shedReasons
)

const (
	deadCrash = iota
	deadStopped
	deadReasons
)

var (
	rejectedNames = [rejectedReasons]reason.Reason{
		rejectedFull: reason.Full, rejectedClosed: reason.Closed, rejectedCancelled: reason.Cancelled, rejectedType: reason.Type,
		rejectedDisabled: reason.Disabled, rejectedRate: reason.Rate, rejectedPolicy: reason.Policy, rejectedMaxInFlight: reason.MaxInFlight,
	}
	shedNames = [shedReasons]reason.Reason{
		shedFull: reason.Full, shedNewest: reason.Newest, shedOldest: reason.Oldest, shedDisabled: reason.Disabled, shedExpired: reason.Expired,
	}
	deadNames = [deadReasons]reason.Reason{deadCrash: reason.Crash, deadStopped: reason.Stopped}
)
