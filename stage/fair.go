package stage

import (
	"fmt"
	"hash/maphash"

	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
)

// Fair has the keys of the stage's commands share it by their weights, so that
// a tenant with very many commands delays the others by its share and no more.
// The keys need not be known before:
//
//	stage.Func("render", render, stage.Fair(Job.Tenant, plan, 4))
//
// Keys with commands in the queue take turns. A turn of the key with the least
// weight is one command, and a turn of another key as many commands as its
// weight is larger: keys with the weights 70 and 30 take turns of two or three
// commands and one. So while several keys have commands, each has its share of
// the commands that are started, however long their handlers take. A key that
// is alone has the whole stage. A key saves nothing while it has no commands.
// Commands of one key start in the order of their arrival.
//
// Weight returns the weight of a key, at least 1; if it is nil, all keys have
// the same. AtOnce bounds how many handlers may have commands of one key at
// once; 0 means any number. Without a bound, a key with slow handlers may have
// all workers, and the command of another key starts when one of these returns.
// A handler counts until the results of its batch have been handed over, and a
// suspended one until it ends. A worker takes several commands at once, of
// several keys: if some handlers take very long, see [Batch]. C is the type of
// the stage's commands, or an interface that it implements.
//
// Commands of one key hold a part of the slots only, a quarter or as many as
// [KeyCapacity] says. For a command of a key that holds as many, the stage is
// full: it waits until the key has a free slot, or is refused or dropped, as
// [Overflow] says, and commands of other keys pass it. That holds for callers,
// and for workers of the stages before, see KeyCapacity for when these may hold
// up other keys: if the stages before are Fair, too, with a bound for handlers,
// no more workers than that wait with commands of one key. If all slots of the
// stage are taken, all wait, and first come, first served. A full stage that
// drops the oldest command (DropOldest) drops the oldest of the key with the
// most commands for its weight, of the 256 keys that it looks at.
//
// A command that is tried again goes to the end of its key's queue, and has a
// slot of its key until then. Commands that a crash gave back come before all
// others.
//
// Key and weight are called several times for each command, by any goroutine,
// perhaps many at once: they must be quick, and call nothing of the pipeline.
// Key always returns the same for the same command; weight may change its mind,
// and the key has the new weight from its next command on. A command whose key
// panics, or is not equal to itself, such as a NaN, crashes in the stage, and so
// does one whose weight is less than 1.
//
// A key without commands is forgotten, so memory is bounded, whatever the keys.
// Queue.FairKeys of the snapshot is how many keys have commands in the queue,
// and Queue.FairMost how many commands one of them has.
//
// The stage has an order of its own, so it takes no [Discipline], no [Ordered],
// no [RateBy] and no [Guard], and cannot be [Keyed]; policies do not change its
// order. If its handlers may suspend and there is a bound for handlers, one
// that calls its own stage for its own key has the error [ErrSelfCall].
func Fair[C any, K comparable](key func(cmd C) K, weight func(key K) int, atOnce int) Option {
	seed := maphash.MakeSeed()
	return once("Fair", func(s *settings) {
		s.fair = askedOf(key)
		s.engine.Inbox.AtOnce = atOnce
		if key == nil {
			return
		}
		s.engine.SharedBy = anyKey(key)
		of := func(cmd C) line.Rank {
			k := key(cmd)
			r := line.Rank{Key: hashOf(seed, k), Order: 1}
			if weight != nil {
				r.Order = int64(weight(k))
			}
			if r.Order < 1 {
				panic(fmt.Errorf("stage.Fair: the key %v has the weight %d; it must be at least 1", k, r.Order))
			}
			return r
		}
		s.fair.again = func(cmd any) { c, _ := cmd.(C); of(c) }
		asked := s.fair
		s.engine.Inbox.Share = func(load any) line.Rank {
			done := false
			defer asked.note(&done)
			r := of(link.Open[C](load))
			done = true
			return r
		}
	})
}

// asks returns what commands are asked with.
func (s *settings) asks() (all []*asked) {
	if s.ratedBy != nil && !s.keying.on {
		all = append(all, s.ratedBy)
	}
	if s.fair != nil {
		all = append(all, s.fair)
	}
	return all
}

// setKeyCapacity sets the default of a fair stage.
func (s *settings) setKeyCapacity() {
	if s.fair != nil && !s.boundsKeys {
		s.engine.Inbox.KeyCapacity = line.QuarterOfCapacity
	}
}
