package watermill_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/stage"
)

// tap is a subscriber whose messages the test makes.
type tap struct {
	out chan *message.Message
	ctx context.Context
}

func (p *tap) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	p.ctx = ctx
	context.AfterFunc(ctx, func() { close(p.out) })
	return p.out, nil
}

func (p *tap) Close() error { return nil }

// post is a publisher that may be away.
type post struct {
	mu   sync.Mutex // guards the rest
	away bool
	sent map[string]int // by UUID
}

func (p *post) Publish(_ string, all ...*message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return errAway
	}
	for _, m := range all {
		p.sent[m.UUID]++
	}
	return nil
}

func (p *post) Close() error { return nil }

func (p *post) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// modelled is a message with what the model knows of it.
type modelled struct {
	m         *message.Message
	end       feed.End // nil if it has not arrived
	ended     bool     // its command has ended
	wantAck   bool     // at once
	wantNack  bool     // at due
	wantDead  bool     // when the publisher is not away
	due       time.Time
	published bool
}

// model is what the source should have done.
type model struct {
	p       *tap
	dead    *post
	s       *watermill.Source[string]
	o       watermill.Options[string]
	all     []*modelled
	arrived map[string]*modelled // the last of each payload
	tries   map[string]int       // by UUID
	mu      sync.Mutex           // guards arrived
}

// held returns how many messages are in flight.
func (m *model) held(now time.Time) (n int) {
	for _, k := range m.all {
		if k.end != nil && !k.acked() && !k.nacked(now) {
			n++
		}
	}
	return n
}

func (k *modelled) acked() bool             { return k.wantAck || k.wantDead && k.published }
func (k *modelled) nacked(n time.Time) bool { return k.wantNack && !n.Before(k.due) }

// A model: each message is acknowledged or nacked once, when its command has ended and not before, as the error of the command says.
func TestEachMessageIsSettledOnceAndNotBeforeItsCommandHasEnded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) { runModel(rt) })
	})
}

func runModel(t *rapid.T) {
	m := &model{
		p: &tap{out: make(chan *message.Message)}, dead: &post{sent: map[string]int{}}, arrived: map[string]*modelled{}, tries: map[string]int{},
		o: watermill.Options[string]{
			MaxInFlight: rapid.IntRange(1, 5).Draw(t, "most"),
			Retry:       stage.RetryPolicy{Attempts: 3, Backoff: time.Second, Max: 2 * time.Second},
		},
	}
	m.o.Dead = m.dead
	m.o.Decode = func(of *message.Message) (string, error) {
		if of.Metadata.Get("bad") != "" {
			return "", errors.New("bad")
		}
		return string(of.Payload), nil
	}
	s, err := watermill.NewSource(m.p, "orders", m.o)
	require.NoError(t, err)
	m.s = s
	stop := m.feed()
	synctest.Wait()
	t.Repeat(map[string]func(*rapid.T){
		"deliver": m.deliver,
		"end":     m.end,
		"wait": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 30).Draw(t, "tenths")) * 100 * time.Millisecond)
		},
		"post away": func(*rapid.T) { m.dead.set(true) },
		"post back": func(*rapid.T) { m.postBack() },
		"":          m.check,
	})
	m.finish(t, stop)
}

// feed runs the source, and returns the function that stops it.
func (m *model) feed() func() error {
	var cursor feed.Cursor
	ctx, cancel := context.WithCancel(feed.With(context.Background(), &cursor))
	done := make(chan error, 1)
	go func() {
		done <- m.s.Feed(ctx, func(cmd string) error {
			return cursor.Submit(ctx, func(as feed.Terms) error {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.arrived[cmd].end = as.End
				return nil
			})
		})
	}()
	return func() error { cancel(); return <-done }
}

// deliver delivers a message, if there is a place for it.
func (m *model) deliver(t *rapid.T) {
	if m.held(time.Now()) >= m.o.MaxInFlight {
		t.Skip("no place")
	}
	uuid := rapid.StringMatching("[abc]").Draw(t, "uuid")
	k := &modelled{m: message.NewMessage(uuid, []byte(uuid))}
	if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
		k.m.Metadata.Set("bad", "yes")
		k.end = func(error, bool) {}
		k.ended, k.wantDead = true, true
	}
	m.mu.Lock()
	m.arrived[uuid] = k
	m.mu.Unlock()
	m.all = append(m.all, k)
	ctx, cancel := context.WithCancel(m.p.ctx)
	k.m.SetContext(ctx)
	go func() { // as subscribers do
		select {
		case <-k.m.Acked():
		case <-k.m.Nacked():
		case <-ctx.Done():
		}
		cancel()
	}()
	m.p.out <- k.m
	synctest.Wait()
	if k.wantDead {
		m.count(k)
	}
}

// count counts a failure in the model, and the letter if one was published.
func (m *model) count(k *modelled) {
	m.tries[k.m.UUID]++
	if k.wantDead {
		m.publish(k)
	}
}

func (m *model) publish(k *modelled) {
	m.dead.mu.Lock()
	away := m.dead.away
	m.dead.mu.Unlock()
	if !away && !k.published {
		k.published = true
		delete(m.tries, k.m.UUID)
	}
}

// end ends a command.
func (m *model) end(t *rapid.T) {
	var open []*modelled
	for _, k := range m.all {
		if k.end != nil && !k.ended {
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		t.Skip("no command")
	}
	k := rapid.SampledFrom(open).Draw(t, "command")
	k.ended = true
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		k.end(nil, true)
		k.wantAck = true
		delete(m.tries, k.m.UUID)
	case 1:
		n := m.tries[k.m.UUID] + 1
		k.end(errors.New("no"), true)
		if n < 3 {
			k.wantNack, k.due = true, time.Now().Add(time.Duration(n)*time.Second)
		} else {
			k.wantDead = true
		}
		synctest.Wait()
		m.count(k)
	case 2:
		k.end(&stage.CrashError{}, true)
		k.wantDead = true
		synctest.Wait()
		m.count(k)
	case 3:
		k.end(stage.ErrStopped, false)
		k.wantNack, k.due = true, time.Now()
	}
	synctest.Wait()
}

// postBack lets the publisher work again, and waits until all letters are published.
func (m *model) postBack() {
	m.dead.set(false)
	time.Sleep(7 * time.Second)
	synctest.Wait()
	for _, k := range m.all {
		if k.wantDead {
			m.publish(k)
		}
	}
}

// check compares the source with the model.
func (m *model) check(t *rapid.T) {
	synctest.Wait()
	now := time.Now()
	var want watermill.Counts
	for _, k := range m.all {
		if k.end == nil {
			continue
		}
		want.Delivered++
		acked, nacked := closed(k.m.Acked()), closed(k.m.Nacked())
		require.Equal(t, k.acked(), acked, "acked")
		require.Equal(t, k.nacked(now), nacked, "nacked")
		require.False(t, !k.ended && (acked || nacked), "settled before the end")
		switch {
		case k.wantAck:
			want.Acknowledged++
		case acked:
			want.DeadLettered++
		case nacked:
			want.GivenBack++
		default:
			want.InFlight++
		}
	}
	n := m.s.Counts()
	require.Equal(t, want, n)
	require.LessOrEqual(t, n.InFlight, uint64(m.o.MaxInFlight))
}

// finish stops the source, ends all commands, and closes it: then nothing is left in flight.
func (m *model) finish(t *rapid.T, stop func() error) {
	require.ErrorIs(t, stop(), context.Canceled)
	for _, k := range m.all {
		if k.end != nil && !k.ended {
			k.end(nil, true)
		}
	}
	m.dead.set(false)
	require.NoError(t, m.s.Close(context.Background()))
	n := m.s.Counts()
	require.Zero(t, n.InFlight)
	requireLaw(t, n)
	for _, k := range m.all {
		require.NotEqual(t, closed(k.m.Acked()), closed(k.m.Nacked()))
	}
	letters := 0
	for _, k := range m.dead.sent {
		letters += k
	}
	require.Equal(t, n.DeadLettered, uint64(letters))
	require.Error(t, m.p.ctx.Err(), "the subscription has ended")
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
