package version

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
)

// Series is the versions of a stage, which follow one another. The last one
// installed is the present one: new instances are made of it, and instances of
// the others are renewed when a worker, or the inbox, has them.
type Series struct {
	Inbox    *inbox.Inbox // of the stage; it keeps the idle instances
	Suspends bool         // handlers may suspend
	// Context is the parent of handlers' contexts. It and the fields below are
	// set before an instance starts.
	Context context.Context
	Log     *slog.Logger
	Unsaved string // why no instance may have snapshots; empty if any may

	present atomic.Pointer[Version]
	moving  atomic.Int32 // above 0 while there may be instances that are not of the present version
}

// New returns a version whose instances build makes. With shares it makes one
// instance, which all workers share.
func (s *Series) New(build func(of *Version) Instance, shares bool) *Version {
	return &Version{series: s, make: build, shares: shares}
}

// Present returns the version that new instances are made of.
func (s *Series) Present() *Version { return s.present.Load() }

// Install sets the first version of a stage.
func (s *Series) Install(v *Version) { s.present.Store(v) }

// Moving reports whether there may be instances that are not of the present
// version.
func (s *Series) Moving() bool { return s.moving.Load() > 0 }

// NewInstance makes an instance of the present version and starts it.
func (s *Series) NewInstance(ctx context.Context) (Instance, error) {
	for {
		inst, err := s.Present().acquire(ctx)
		if !errors.Is(err, errRetired) {
			return inst, err
		}
	}
}

// Replace makes another version the present one, and returns the one before.
// Its instances are stopped: idle ones here, others by their workers after the
// batch that they hold. [Version.Done] tells when the last one has been. One
// goroutine at a time may call Replace; a stage that ends stops its instances
// only after Replace has returned.
func (s *Series) Replace(to *Version) (before *Version) {
	s.moving.Add(1) // until the version before is over
	before = s.Present()
	before.giveWay(to, func() { s.present.Store(to) })
	before.discard()
	s.sweep()
	s.Inbox.Workers().WakeAll()
	return before
}

// Renew returns an instance of the present version as it is. It stops another
// one and returns nil.
func (s *Series) Renew(inst Instance) Instance {
	if inst == nil || inst.Of() == s.Present() {
		return inst
	}
	s.Stop(inst)
	return nil
}

// Sweep renews what a worker may have returned to the idle instances, if a
// version was replaced.
func (s *Series) Sweep() {
	if s.Moving() {
		s.sweep()
	}
}

// sweep renews the idle instances.
func (s *Series) sweep() {
	stale := func(inst any) bool { return inst.(Instance).Of() != s.Present() }
	for {
		var borrower inbox.Member
		if !s.Inbox.Instances().Borrow(&borrower, stale) {
			return
		}
		borrower.Instance = nilOr(s.Renew(borrower.Instance.(Instance)))
		s.Inbox.Instances().Return(&borrower)
		if inst, ok := borrower.Surplus.(Instance); ok {
			s.Stop(inst)
		}
	}
}

// Stock makes one idle instance, unless there is one.
func (s *Series) Stock() error {
	var borrower inbox.Member
	if !s.Inbox.Instances().Claim(&borrower) {
		s.Inbox.Instances().Return(&borrower)
		return nil
	}
	inst, err := s.NewInstance(s.Context)
	if err == nil {
		borrower.Instance = inst
	}
	s.Inbox.Instances().Return(&borrower)
	return err
}

// Clear stops instances that were idle.
func (s *Series) Clear(idle []any) {
	for _, inst := range idle {
		s.Stop(inst.(Instance))
	}
}

func (s *Series) name() string { return s.Inbox.Name() }

// guard runs user code.
func (s *Series) guard(f func() error) error { return crash.Guard(s.name(), f) }

func (s *Series) logPanic(message string, err error) { crash.Log(s.Log, s.name(), message, err) }

// nilOr converts an instance for the inbox, which knows no instance as a nil of
// type any.
func nilOr(inst Instance) any {
	if inst == nil {
		return nil
	}
	return inst
}
