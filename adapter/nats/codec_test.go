package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

type order struct {
	ID     string
	Amount int
}

func TestJSONReadsWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := order{rapid.String().Draw(t, "id"), rapid.Int().Draw(t, "amount")}
		codec := nats.JSON[order]{Version: rapid.IntRange(0, 3).Draw(t, "version")}
		p, err := codec.Encode(want)
		require.NoError(t, err)
		require.Equal(t, "nats_test.order", p.Type)
		got, err := codec.Decode(p)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestJSONReadsOlderVersionsThatItKnows(t *testing.T) {
	old := nats.JSON[int]{Type: "order"}
	codec := nats.JSON[order]{Type: "order", Version: 3, Older: map[int]func([]byte) (order, error){
		1: func(data []byte) (o order, err error) { err = json.Unmarshal(data, &o.Amount); return o, err },
	}}
	p, err := old.Encode(7)
	require.NoError(t, err)
	got, err := codec.Decode(p)
	require.NoError(t, err)
	require.Equal(t, order{Amount: 7}, got)
	for version, known := range map[int]bool{0: false, 1: true, 2: false, 3: true, 4: false} {
		_, err := codec.Decode(nats.Payload{Type: "order", Version: version, Data: []byte("{}")})
		require.Equal(t, !known, errors.Is(err, nats.ErrUnknownType), "version %d: %v", version, err)
	}
	_, err = codec.Decode(nats.Payload{Type: "else", Version: 3})
	require.ErrorIs(t, err, nats.ErrUnknownType)
}

func TestProtoReadsWhatItWrote(t *testing.T) {
	codec := nats.Proto[*wrapperspb.StringValue]{}
	p, err := codec.Encode(wrapperspb.String("seven"))
	require.NoError(t, err)
	require.Equal(t, "google.protobuf.StringValue", p.Type)
	got, err := codec.Decode(p)
	require.NoError(t, err)
	require.Equal(t, "seven", got.Value)
	_, err = nats.Proto[*wrapperspb.Int64Value]{}.Decode(p)
	require.ErrorIs(t, err, nats.ErrUnknownType)
	_, err = codec.Decode(nats.Payload{Type: p.Type, Version: 1, Data: []byte{0xff}})
	require.Error(t, err)
	require.NotErrorIs(t, err, nats.ErrUnknownType)
}

// crashing is a codec that panics.
type crashing struct{ nats.JSON[int] }

func (crashing) Decode(nats.Payload) (int, error) { panic("the codec crashed") }

func TestAMessageThatCannotBeDecodedIsADeadLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	retry := stage.RetryPolicy{Attempts: 1}
	for name, c := range map[string]struct {
		write, read nats.Codec[int]
		reason      reason.Reason
	}{
		"of a new version":           {nats.JSON[int]{Version: 2}, nats.JSON[int]{}, nats.UnknownType},
		"of another type":            {nats.JSON[int]{Type: "text"}, nats.JSON[int]{}, nats.UnknownType},
		"that is not what it says":   {liar{}, nats.JSON[int]{}, nats.Undecodable},
		"for which the codec panics": {nats.JSON[int]{}, crashing{}, nats.Undecodable},
	} {
		t.Run(name, func(t *testing.T) {
			writer := inlet(t, conn, "numbers", nats.Options[int]{Codec: c.write, Retry: retry})
			reader := inlet(t, conn, "numbers", nats.Options[int]{Codec: c.read, Retry: retry, UntilEmpty: true})
			require.NoError(t, writer.Publish(t.Context(), "", 7))
			run(t, reader, stage.Sink("none", func(context.Context, int) error { t.Error("it was handled"); return nil }))
			require.EqualValues(t, 1, reader.Counts().DeadLettered)
			for l, err := range reader.Letters(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, c.reason, l.Reason)
				require.NotEmpty(t, l.Data)
				require.NoError(t, reader.Drop(t.Context(), l))
			}
		})
	}
}

// liar is a codec that writes what JSON does not read.
type liar struct{ nats.JSON[int] }

func (l liar) Encode(k int) (nats.Payload, error) {
	p, err := l.JSON.Encode(k)
	p.Data = []byte("seven")
	return p, err
}

// A stranger published it.
func TestAMessageWithoutHeadersIsADeadLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	for _, data := range []string{"", "7"} {
		_, err := conn.JetStream().Publish(t.Context(), "golda.inlet.numbers", []byte(data))
		require.NoError(t, err)
	}
	status404 := natsgo.Header{"Status": {"404"}, "Golda-Type": {"int"}, "Golda-Version": {"many"}}
	_, err := conn.JetStream().PublishMsg(t.Context(), &natsgo.Msg{Subject: "golda.inlet.numbers", Header: status404})
	require.NoError(t, err)
	run(t, numbers, stage.Sink("none", func(context.Context, int) error { t.Error("it was handled"); return nil }))
	require.Equal(t, nats.Status{Published: 3, Buried: 3, DeadLettered: 3}, status(t, numbers))
}

// encodeless is a codec that cannot encode.
type encodeless struct {
	nats.JSON[int]

	err error
}

func (e encodeless) Encode(int) (nats.Payload, error) {
	if e.err == nil {
		panic("no")
	}
	return nats.Payload{}, e.err
}

func TestACommandThatCannotBeEncodedIsRefused(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	no := errors.New("no")
	require.ErrorIs(t, inlet(t, conn, "a", nats.Options[int]{Codec: encodeless{err: no}}).Publish(t.Context(), "", 1), no)
	require.ErrorContains(t, inlet(t, conn, "a", nats.Options[int]{Codec: encodeless{}}).Publish(t.Context(), "", 1), "panicked")
	for _, name := range []string{" order", "order ", "or\nder", "order\r\nNats-Rollup: all", "\torder"} {
		err := inlet(t, conn, "a", nats.Options[int]{Codec: nats.JSON[int]{Type: name}}).Publish(t.Context(), "", 1)
		require.ErrorContains(t, err, "control characters", "a header would not give it back: %q", name)
	}
	require.Error(t, inlet(t, conn, "c", nats.Options[chan int]{Codec: nats.JSON[chan int]{}}).Publish(t.Context(), "", make(chan int)))
}

// sealed is a command that has nothing when JSON has read it, and a number of another type.
type sealed struct {
	ID     string
	amount int //nolint:unused // it is what JSON loses
	Meta   any
}

func TestAnInletWithoutACodecRefusesATypeThatJSONDoesNotKeep(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	_, err := nats.NewInlet(t.Context(), conn, "a", nats.Options[sealed]{MaxBytes: -1})
	require.EqualError(t, err, "nats: inlet \"a\": JSON cannot carry nats_test.sealed: nats_test.sealed.amount is unexported; "+
		"change the type, or give the inlet a codec with Options.Codec\nMaxBytes is -1; use 0 for no limit")
	_, err = nats.NewInlet(t.Context(), conn, "a", nats.Options[map[string]any]{})
	require.ErrorContains(t, err, "JSON cannot carry map[string]interface {}: map[string]interface {}[] is of type interface {}")
	_, err = conn.JetStream().Stream(t.Context(), "GOLDA_a")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nothing was made")
	inlet(t, conn, "a", nats.Options[sealed]{Codec: nats.JSON[sealed]{}}) // a codec that is named is not checked
}

// hook has a body that may be any bytes.
type hook struct{ Body string }

func TestACommandThatJSONWouldChangeIsNotPublished(t *testing.T) {
	hooks := inlet(t, embed(t, t.TempDir(), nats.Store{}), "hooks", nats.Options[hook]{UntilEmpty: true})
	const want = "encode: JSON does not keep nats_test.hook.Body: "
	require.ErrorContains(t, hooks.Publish(t.Context(), "1", hook{"caf\xe9"}), want)
	_, err := hooks.PublishOnce(t.Context(), "1", hook{"caf\xe9"})
	require.ErrorContains(t, err, want)
	require.NoError(t, hooks.Publish(t.Context(), "2", hook{"caf\ufffd"}))
	var got []hook
	keep := stage.Sink("keep", func(_ context.Context, h hook) error { got = append(got, h); return nil })
	p, err := pipeline.New("test", pipeline.Feed("hooks", keep, hooks.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	require.Equal(t, []hook{{"caf\ufffd"}}, got)
	require.EqualValues(t, 2, hooks.Counts().Refused)
}
