package stage

import (
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/stage/queue"
)

// The limits. Larger values are mistakes, and would only fail later.
const (
	maxCapacity = 1 << 30
	maxBatch    = 1 << 16
	maxWorkers  = 1 << 16
	maxTTL      = 24 * time.Hour // an envelope cannot record an earlier arrival
)

// flaw records a fault that is not one of a single option.
func (s *settings) flaw(option, problem string) {
	s.flaws = append(s.flaws, &OptionError{s.engine.Inbox.Name, option, problem})
}

// faults returns everything that is wrong with a stage whose commands are of a
// type.
func (s *settings) faults(cmd reflect.Type) []error {
	check := &checker{stage: s.engine.Inbox.Name, faults: slices.Clone(s.flaws)}
	s.checkExpiry(check, cmd)
	for _, i := range s.nilOptions {
		check.that(false, "is nil", "option %d", i)
	}
	check.that(s.engine.Inbox.Name != "", "a stage needs a name", "New(%q)", s.engine.Inbox.Name)
	check.that(utf8.ValidString(s.engine.Inbox.Name), "the name is not UTF-8", "New(%q)", s.engine.Inbox.Name)
	check.that(len(s.engine.Inbox.Name) <= plain.LongestName, plain.NameTooLong, "New(%q)", s.engine.Inbox.Name)
	s.checkQueue(check)
	s.checkWorkers(check)
	s.checkTime(check)
	s.checkRate(check, cmd)
	s.checkFair(check, cmd)
	s.checkDiscipline(check, cmd)
	s.checkRetry(check)
	s.checkRestart(check)
	s.checkOuts(check)
	s.checkKeyed(check)
	s.checkSnapshots(check)
	s.checkOrdered(check)
	s.checkGuards(check)
	s.checkUse(check)
	for _, f := range s.checks {
		f(check)
	}
	return check.faults
}

// checker collects faults.
type checker struct {
	stage  string
	faults []error
}

// that records a fault unless ok. It is short enough to be inlined: then the
// arguments cost nothing if ok.
func (c *checker) that(ok bool, problem, option string, args ...any) {
	if !ok {
		c.add(problem, option, args)
	}
}

func (c *checker) add(problem, option string, args []any) {
	c.faults = append(c.faults, &OptionError{c.stage, fmt.Sprintf(option, args...), problem})
}

func (s *settings) checkQueue(check *checker) {
	in := s.engine.Inbox
	check.that(in.Capacity >= 1, "must be at least 1", "Capacity(%d)", in.Capacity)
	check.that(in.Capacity <= maxCapacity, fmt.Sprintf("must be at most %d", maxCapacity), "Capacity(%d)", in.Capacity)
	check.that(in.Batch >= 1, "must be at least 1", "Batch(%d)", in.Batch)
	check.that(in.Batch <= maxBatch, fmt.Sprintf("must be at most %d", maxBatch), "Batch(%d)", in.Batch)
	check.that(in.Overflow <= inbox.DropOldest, "no such rule", "Overflow(%d)", in.Overflow)
	check.that(in.Linger >= 0, "must not be negative", "Linger(%v)", in.Linger)
	check.that(in.Linger <= inbox.MostLinger, fmt.Sprintf("must be at most %v", inbox.MostLinger), "Linger(%v)", in.Linger)
}

func (s *settings) checkWorkers(check *checker) {
	check.that(!s.instances || s.engine.Inbox.Instances >= 1, "must be at least 1", "Instances(%d)", s.engine.Inbox.Instances)
	check.that(s.engine.Most <= maxWorkers, fmt.Sprintf("the most workers must be at most %d", maxWorkers), "Workers(%d, %d)", s.engine.Fewest, s.engine.Most)
	check.that(s.engine.Fewest >= 1, "the fewest workers must be at least 1", "Workers(%d, %d)", s.engine.Fewest, s.engine.Most)
	check.that(s.engine.Fewest <= s.engine.Most, "the fewest workers must not be more than the most", "Workers(%d, %d)", s.engine.Fewest, s.engine.Most)
}

func (s *settings) checkTime(check *checker) {
	ttl, limit := s.engine.Inbox.TTL, s.engine.Timeout
	check.that(s.grace >= 0, "must not be negative", "Grace(%v)", s.grace)
	check.that(s.grace == 0 || limit > 0, "means nothing without a Timeout", "Grace(%v)", s.grace)
	check.that(ttl >= 0, "must not be negative", "TTL(%v)", ttl)
	check.that(ttl <= maxTTL, fmt.Sprintf("must be at most %v", maxTTL), "TTL(%v)", ttl)
	check.that(ttl <= 0 || ttl > s.engine.Inbox.Linger, "must be more than Linger: each batch that is not full would expire", "TTL(%v)", ttl)
	check.that(s.expiring == nil || s.engine.ExpiresAt != nil, "the function is nil", "ExpiresAt")
	check.that(limit >= 0, "must not be negative", "Timeout(%v)", limit)
	check.that(limit <= 0 || limit >= leastTimeout, fmt.Sprintf("must be at least %v: perhaps its unit is missing", leastTimeout), "Timeout(%v)", limit)
}

func (s *settings) checkRate(check *checker, cmd reflect.Type) {
	if s.rated {
		r := s.engine.Inbox.Rate
		checkLimit(r, func(ok bool, problem string) { check.that(ok, problem, "Rate(%d, %v, %d)", r.N, r.Per, r.Burst) })
	}
	by := s.ratedBy
	if by == nil {
		return
	}
	r := s.engine.Inbox.RateBy
	that := func(ok bool, problem string) { check.that(ok, problem, "RateBy(key, %d, %v, %d)", r.N, r.Per, r.Burst) }
	checkLimit(r, that)
	that(by.key != 0, "the function for the key is nil")
	that(cmd.AssignableTo(by.takes), fmt.Sprintf("the key takes %v, and the stage's commands are %v", by.takes, cmd))
	that(!s.keying.on || by.key == s.keying.of || by.key == 0, "a keyed stage has a rate for its own key: give both the same function")
	that(!s.engine.Inbox.Ordered, "an ordered stage has an order of its own, in which a key would delay the others")
	that(!s.disciplined, "a stage with a rate for each key has an order of its own, and takes no Discipline")
	that(s.engine.Inbox.Linger <= 0, "a stage with a rate for each key starts one command at a time, and takes no Linger")
}

// checkLimit checks the numbers of a rate.
func checkLimit(r rate.Limit, that func(ok bool, problem string)) {
	that(r.N >= 1, "the number must be at least 1")
	that(r.Per > 0, "the period must be above 0")
	that(r.Burst >= 1, "the burst must be at least 1: with less no command could ever start")
	that(r.Per <= 0 || r.Burst <= 0 || r.Fits(), "burst times period must be less than 292 years")
}

// checkExpiry checks that the function of ExpiresAt can be called with a
// command of the stage.
func (s *settings) checkExpiry(check *checker, cmd reflect.Type) {
	of := s.expiring
	abstract := func(t reflect.Type) bool { return t.Kind() == reflect.Interface }
	switch {
	case of == nil, of == cmd, abstract(of) && abstract(cmd):
	case abstract(of) && cmd.Implements(of), abstract(cmd) && of.Implements(cmd):
	default:
		check.that(false, fmt.Sprintf("takes %v, and the stage's commands are %v", of, cmd), "ExpiresAt")
	}
}

func (s *settings) checkDiscipline(check *checker, cmd reflect.Type) {
	d := s.engine.Inbox.Discipline
	if s.nilDiscipline {
		check.that(false, "is nil", "Discipline(nil)")
		return
	}
	if !s.disciplined {
		return
	}
	if err := d.Check(); err != nil {
		check.that(false, err.Error(), "Discipline(%s)", d.Name())
	}
	takes := queue.CommandType(d)
	check.that(canBe(cmd, takes), fmt.Sprintf("its function takes %v, which no command of type %v can be", takes, cmd),
		"Discipline(%s)", d.Name())
}

// canBe reports whether a value of one type can be one of the other at run
// time: whether a type assertion from the first to the second may succeed. A
// nil type stands for any type.
func canBe(value, other reflect.Type) bool {
	switch {
	case value == nil || other == nil || value == other:
		return true
	case value.Kind() != reflect.Interface:
		return other.Kind() == reflect.Interface && value.Implements(other)
	case other.Kind() != reflect.Interface:
		return other.Implements(value)
	default:
		return true // some type may implement both
	}
}

func (s *settings) checkRetry(check *checker) {
	r := s.retry
	check.that(r.Attempts >= 0, "must not be negative", "Retry(Attempts: %d)", r.Attempts)
	check.that(r.Backoff >= 0, "must not be negative", "Retry(Backoff: %v)", r.Backoff)
	check.that(r.Max >= 0, "must not be negative", "Retry(Max: %v)", r.Max)
	check.that(r.Max == 0 || r.Max >= r.Backoff, "must not be less than Backoff", "Retry(Backoff: %v, Max: %v)", r.Backoff, r.Max)
	check.that(r.Jitter >= 0 && r.Jitter <= 1, "must be from 0 to 1", "Retry(Jitter: %v)", r.Jitter)
	check.that(r.Budget == 0 || r.Budget >= 0.001 && r.Budget <= 1, "must be 0, or from 0.001 to 1", "Retry(Budget: %v)", r.Budget)
	idle := r.Attempts < 2 && (r.Backoff != 0 || r.Max != 0 || r.Jitter != 0 || r.Budget != 0 || r.If != nil)
	check.that(!idle || r.Attempts < 0, "asks for no retry, yet says how; set Attempts to 2 or more", "Retry(Attempts: %d)", r.Attempts)
}

func (s *settings) checkRestart(check *checker) {
	r := s.restart
	check.that(r.Backoff >= 0, "must not be negative", "Restart(Backoff: %v)", r.Backoff)
	check.that(r.Max >= 0, "must not be negative", "Restart(Max: %v)", r.Max)
	check.that(r.Max == 0 || r.Max >= r.Backoff, "must not be less than Backoff", "Restart(Backoff: %v, Max: %v)", r.Backoff, r.Max)
	check.that(r.Within >= 0, "must not be negative", "Restart(Within: %v)", r.Within)
}

func (s *settings) checkOuts(check *checker) {
	names := map[string]bool{}
	for i, p := range s.engine.Outs {
		if engine.IsMissing(p) {
			check.that(false, "is nil, or a stage that was not made with a function of this package", "Out(port %d)", i+1)
			continue
		}
		name := plain.Name(p.Name())
		check.that(len(name) <= plain.LongestName, plain.NameTooLong, "Out(%q)", name)
		check.that(!names[p.Name()], "declared twice", "Out(%q)", name)
		check.that(utf8.ValidString(name), "the name is not UTF-8", "Out(%q)", name)
		names[p.Name()] = true
	}
}

// checkKeyed finds what a keyed stage cannot be given.
func (s *settings) checkKeyed(check *checker) {
	check.that(!s.boundsKeys || s.keying.on || s.fair != nil, "is for stages with keys, Keyed and Fair", "KeyCapacity(%d)", s.engine.Inbox.KeyCapacity)
	check.that(!s.boundsKeys || s.engine.Inbox.KeyCapacity >= 1, "must be at least 1", "KeyCapacity(%d)", s.engine.Inbox.KeyCapacity)
	check.that(s.engine.Inbox.Capacity < 1 || s.engine.Inbox.KeyCapacity <= s.engine.Inbox.Capacity, fmt.Sprintf("must be at most the capacity, %d", s.engine.Inbox.Capacity), "KeyCapacity(%d)", s.engine.Inbox.KeyCapacity)
	check.that(!s.engine.Inbox.Parks || s.keying.on, "is for keyed stages", "ParkOnFailure()")
	check.that(!s.keying.passivates || s.keying.on, "is for keyed stages", "Passivate(%v, %d)", s.keying.idle, s.keying.most)
	check.that(s.keying.idle == 0 || s.keying.idle >= time.Millisecond, "the time must be 0 or at least 1ms", "Passivate(%v, %d)", s.keying.idle, s.keying.most)
	check.that(s.keying.most >= 0, "the number must not be negative", "Passivate(%v, %d)", s.keying.idle, s.keying.most)
	check.that(!s.keying.on || !s.disciplined, "a keyed stage has an order of its own", "Discipline")
}

// checkSnapshots finds what a stage whose instances have snapshots, or have
// none, cannot be given.
func (s *settings) checkSnapshots(check *checker) {
	if s.snapshots {
		check.that(s.snapshotEvery >= 1, "must be at least 1", "SnapshotEvery(%d)", s.snapshotEvery)
		check.that(!s.shared || s.keying.on, "is for stages with instances of their own, Each and Keyed", "SnapshotEvery(%d)", s.snapshotEvery)
	}
	if s.keying.keeps {
		check.that(s.keying.kept >= 1, "must be at least 1", "KeepStates(%d)", s.keying.kept)
		check.that(s.keying.passivates, "means nothing without Passivate", "KeepStates(%d)", s.keying.kept)
	}
}

// checkFair finds what a fair stage cannot be given.
func (s *settings) checkFair(check *checker, cmd reflect.Type) {
	f := s.fair
	if f == nil {
		return
	}
	atOnce := s.engine.Inbox.AtOnce
	that := func(ok bool, problem string) { check.that(ok, problem, "Fair(key, weight, %d)", atOnce) }
	that(f.key != 0, "the function for the key is nil")
	that(cmd.AssignableTo(f.takes), fmt.Sprintf("the key takes %v, and the stage's commands are %v", f.takes, cmd))
	that(atOnce >= 0, "the number of handlers must not be negative; 0 means any number")
	that(!s.keying.on, "a Keyed stage has an order of its own, and takes no Fair")
	that(!s.engine.Inbox.Ordered, "a stage that is Ordered has an order of its own, and takes no Fair")
	that(!s.disciplined, "a stage with Fair has an order of its own, and takes no Discipline")
	that(s.ratedBy == nil, "a stage with RateBy has an order of its own, and takes no Fair")
	that(s.engine.Inbox.Holder == nil || atOnce == 0, "a stage with windows holds its commands until the windows close, and takes no bound for handlers")
}

// checkOrdered finds what an ordered stage cannot be given.
func (s *settings) checkOrdered(check *checker) {
	check.that(!s.engine.Inbox.Ordered || !s.keying.on, "a keyed stage keeps the order of each key, and no other", "Ordered")
	check.that(!s.engine.Inbox.Ordered || s.engine.Inbox.Holder == nil, "a stage with windows has an order of its own", "Ordered")
	check.that(!s.engine.Inbox.Ordered || !s.disciplined, "an ordered stage has an order of its own", "Discipline")
}

// checkGuards finds the faults of the guards, and the options that a stage with
// guards cannot have.
func (s *settings) checkGuards(check *checker) {
	if s.engine.Inbox.Guards == nil {
		return
	}
	known := func(method, option string) {
		check.that(len(method) <= plain.LongestName, plain.NameTooLong, option, plain.Name(method))
		method = plain.Name(method)
		only := s.method(nil)
		check.that(!s.oneMethod || method == only, fmt.Sprintf("the stage's commands are of the method %q", only), option, method)
		check.that(method != "", "the method has no name", option, method)
	}
	for _, g := range s.engine.Inbox.Guards.State {
		check.that(g.Guard != nil, "the guard is nil", "Guard(%q)", g.Method)
		known(g.Method, "Guard(%q)")
	}
	for _, c := range s.unguardable() {
		check.that(false, c.problem, "%s", c.option)
	}
}

// conflict is an option that a stage with guards cannot be given.
type conflict struct{ option, problem string }

// unguardable returns why the stage cannot have guards.
func (s *settings) unguardable() (conflicts []conflict) {
	add := func(given bool, option, problem string) {
		if given {
			conflicts = append(conflicts, conflict{option, problem})
		}
	}
	add(s.keying.on, "Guard", "a keyed stage handles one command of each key at a time, and takes no guards")
	add(s.fair != nil, "Guard", "a stage with guards has an order of its own, and takes no Fair")
	add(s.ratedBy != nil, "Guard", "a stage with guards has an order of its own, and takes no RateBy")
	add(s.engine.Inbox.Ordered, "Ordered", "a stage with guards has an order of its own, and takes no Ordered")
	add(s.disciplined, "Discipline", "a stage with guards has an order of its own, and takes no Discipline")
	add(s.engine.Inbox.Linger > 0, fmt.Sprintf("Linger(%v)", s.engine.Inbox.Linger),
		"a stage with guards starts one command at a time, and takes no Linger")
	return conflicts
}

func (s *settings) checkUse(check *checker) {
	for i, m := range s.around {
		check.that(m != nil, "is nil", "Middleware, function %d", i+1)
	}
}
