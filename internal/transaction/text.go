package transaction

// text turns corrections of the text off, one by one: with them off the
// machines do what the text says. Only tests set its fields, to show that they
// would notice.
type text struct {
	// Of a process.
	retriesAtOnce      bool // an aborted attempt is made again at once, without a hint
	countsAttempts     bool // the identifier's counter grows with each attempt
	losesNotifications bool // while a request is verified
	trustsGuards       bool // guards are not evaluated again when all synchronizers have agreed
	closesQueue        bool // while a request is verified or a function is suspended
	staysUp            bool // a synchronizer that died is asked on
	ignoresAge         bool // a younger atomic rule may overtake an older one
	leavesAllHeld      bool // a lock whose synchronizer has died holds all methods that have rules
	order              func(process string, ask []string)

	// Of a synchronizer.
	firstComeFirstServed bool // the oldest request in the queue is next
	notifiesAll          bool // each process, at each commit, after the queue was served
	ignoresDeaths        bool // of the process that has the lock
	asksNone             bool // the transaction of a dead process is aborted without asking
	repairsNothing       bool // when a process has died
	startsEmpty          bool // counters are not fetched
	// forgetsGrants: the locks that processes had granted to the previous
	// incarnation are never resolved.
	forgetsGrants bool

	// Of both.
	noEpochs bool
}
