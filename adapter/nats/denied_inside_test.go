package nats

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// denying returns the denials of the connection of user scans, and what an
// inlet logs of them.
func denying() (*denials, *strings.Builder) {
	d := &denials{nc: &natsgo.Conn{Opts: natsgo.Options{InboxPrefix: "_INBOX_scans"}}, hears: map[int]func(*denial){}}
	log := &strings.Builder{}
	t := &tracker{trackerConfig: trackerConfig{plain: slog.New(slog.NewTextHandler(log, nil))}}
	d.listen(func(now *denial) { t.denied(now, false) })
	return d, log
}

func (d *denials) refuse(what, subject string) {
	d.note(fmt.Errorf("%w: Permissions Violation for %s %q", natsgo.ErrPermissionViolation, what, subject))
}

func TestTheInboxOfAnotherProcessIsNotThatOfThisConnection(t *testing.T) {
	d, _ := denying()
	d.refuse("Publish to", "_INBOX_scans.other.6")
	require.Nil(t, d.about("golda.inlet.scans", time.Time{}))
	require.NoError(t, d.ask(t.Context(), func(string) bool { return false }, func(ctx context.Context) error {
		d.refuse("Publish to", "_INBOX_scans.other.7")
		return ctx.Err()
	}))
	d.refuse("Subscription to", "_INBOX_scans.own.*")
	require.NotNil(t, d.about("golda.inlet.scans", time.Now()))
}

// A carrier to a keyed stage publishes to several partitions at once.
func TestDenialsOfTwoPartitionsDoNotHideEachOther(t *testing.T) {
	d, _ := denying()
	sent := time.Now()
	for n := range mostRecent {
		d.refuse("Publish to", fmt.Sprintf("golda.inlet.scans.%d", n))
	}
	for n := range mostRecent {
		subject := fmt.Sprintf("golda.inlet.scans.%d", n)
		err := d.unlessDenied(t.Context(), subject, sent, func(context.Context) error { return nil })
		require.ErrorContains(t, err, subject)
	}
	require.Len(t, d.noted, 1)
	d.refuse("Publish to", "golda.inlet.scans.0")
	require.Len(t, d.recent, mostRecent)
	d.forget()
	require.NoError(t, d.unlessDenied(t.Context(), "golda.inlet.scans.0", sent, func(context.Context) error { return nil }))
}

// A consumer, or the program itself, has subscribed to an inbox of its own.
func TestADeniedSubscriptionOfOneInboxEndsNoOtherRequest(t *testing.T) {
	d, _ := denying()
	require.NoError(t, d.unlessDenied(t.Context(), "golda.inlet.scans", time.Now(), func(ctx context.Context) error {
		d.refuse("Subscription to", "_INBOX_scans.u4ctQ2G7M4")
		return ctx.Err()
	}))
	require.Nil(t, d.about("golda.inlet.scans", time.Time{}))
}

// A process that may not acknowledge reads its letters meanwhile.
func TestADeniedAcknowledgementEndsNoRequestAboutTheInlet(t *testing.T) {
	d, _ := denying()
	require.NoError(t, d.ask(t.Context(), namesOf("scans").requests, func(ctx context.Context) error {
		d.refuse("Publish to", "$JS.ACK.GOLDA_scans.golda.5.1.5.1795824126816569477.0")
		d.refuse("Publish to", "golda.inlet.scans")
		d.refuse("Publish to", "$JS.API.STREAM.MSG.GET.GOLDA_others_DEAD")
		return ctx.Err()
	}))
	require.ErrorContains(t, d.ask(t.Context(), namesOf("scans").requests, func(ctx context.Context) error {
		d.refuse("Publish to", "$JS.API.STREAM.MSG.GET.GOLDA_scans_DEAD")
		return ctx.Err()
	}), "GOLDA_scans_DEAD")
}

// The connection subscribes to its answers once, before the message that waits for one.
func TestAConnectionWithoutAnswersFailsEachMessageAtOnce(t *testing.T) {
	d, _ := denying()
	d.refuse("Subscription to", "_INBOX_scans.own.*")
	d.refuse("Subscription to", "_INBOX_scans.u4ctQ2G7M4") // of the same pattern
	err := d.unlessDenied(t.Context(), "golda.inlet.scans", time.Now(), func(context.Context) error { return nil })
	require.ErrorContains(t, err, `the server does not permit "_INBOX_scans.>"`)
}

func TestADenialIsNoReasonForAnErrorOfALaterMessage(t *testing.T) {
	d, _ := denying()
	d.refuse("Publish to", "golda.inlet.scans")
	require.NotNil(t, d.about("golda.inlet.scans", time.Time{}))
	require.Nil(t, d.about("golda.inlet.scans", time.Now()))
}

func TestAServerThatIsAwayIsNoDenial(t *testing.T) {
	d, _ := denying()
	d.refuse("Publish to", "golda.inlet.scans")
	require.Nil(t, d.silenced(natsgo.ErrTimeout, "golda.inlet.scans", time.Time{}))
}

func TestDenialsOfOneKindAreLoggedAndNotedOnce(t *testing.T) {
	d, log := denying()
	for i := range 70 {
		d.refuse("Publish to", fmt.Sprintf("_INBOX_scans.x%d.6", i))
		d.refuse("Publish to", fmt.Sprintf("golda.node.call-%d.a", i))
		d.refuse("Publish to", fmt.Sprintf("$JS.API.DIRECT.GET.KV_k.$KV.k.%d", i))
	}
	require.Equal(t, 3, strings.Count(log.String(), "\n"), log)
	require.Len(t, d.noted, 3)
	require.ErrorContains(t, d.all(), `"_INBOX_scans.>"`)
	require.ErrorContains(t, d.all(), `"golda.node.*.a"`)
}

func TestTheLogOfDenialsIsBoundedAndHealthyNamesTheNewest(t *testing.T) {
	d, log := denying()
	for i := range 1000 {
		d.refuse("Publish to", fmt.Sprintf("subject.%d", i))
		d.refuse("Publish to", "subject.0")
	}
	require.Equal(t, mostDenials, strings.Count(log.String(), "\n"))
	require.Equal(t, 1, strings.Count(log.String(), "are not logged"))
	require.Len(t, d.noted, mostDenials)
	require.True(t, strings.HasPrefix(d.all().Error(), `the server does not permit "subject.`))
	require.ErrorContains(t, d.all(), `"subject.999"`)
}
