package nats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/internal/link"
)

// Outcomes keeps the outcome of each key: see [Once]. [Conn.Outcomes] makes
// one, and a table of a database can be one. Any number of goroutines, in any
// number of processes, use it at once.
type Outcomes interface {
	// Get returns the outcome of a key, and whether there is one.
	Get(ctx context.Context, key string) (outcome []byte, found bool, err error)
	// Add sets the outcome of a key that has none. If it has one, Add changes
	// nothing and returns false. Of several calls at once for one key, one
	// returns true. When it has returned, the outcome outlives the process.
	Add(ctx context.Context, key string, outcome []byte) (added bool, err error)
}

// Once calls f if the key has no outcome, keeps what f returns as the outcome,
// as JSON, and returns it. If the key has an outcome, Once returns that and
// does not call f. An error of f is returned and is no outcome: f may be called
// again. For a message that may be delivered twice, the key is what the message
// always has, such as the number of an order.
//
// JSON must keep all of the type R, as it must of the commands of an inlet:
// otherwise Once returns an error and does not call f. An outcome with a string
// that is not UTF-8 is an error, too, after f was called.
//
// What Once promises: a key has one outcome, and all calls of Once for it, in
// all processes, return that one. So an effect that is the outcome, such as an
// entry of a ledger that is read from the Outcomes, happens exactly once.
//
// What it cannot promise: that f is called once. If the process dies after f
// has had an effect elsewhere and before the outcome is kept, or if two calls
// for one key run at the same time because a message was delivered again while
// its first process was frozen or cut off, f is called again. To close that gap
// too, give the key to the other side, if it takes idempotency keys, or write
// effect and outcome in one transaction of a database.
func Once[R any](ctx context.Context, outcomes Outcomes, key string, f func(ctx context.Context) (R, error)) (R, error) {
	link.CheckContext(ctx, "nats: Once")
	if outcomes == nil || f == nil {
		panic("nats: Once: the Outcomes or the function is nil")
	}
	var none R
	of := reflect.TypeFor[R]()
	if problem := kept.ByJSON(of); problem != "" {
		return none, fmt.Errorf("nats: once %.256q: JSON does not keep %v, so the outcome would be another one in later calls: %s", key, of, problem)
	}
	outcome, found, err := outcomes.Get(ctx, key)
	if err != nil {
		return none, fmt.Errorf("nats: once %.256q: %w", key, err)
	}
	if found {
		return outcomeOf[R](key, outcome)
	}
	result, err := f(ctx)
	if err != nil {
		return none, err
	}
	if outcome, err = kept.Marshal(result); err != nil {
		return none, fmt.Errorf("nats: once %.256q: the outcome: %w", key, err)
	}
	added, err := outcomes.Add(ctx, key, outcome)
	if err != nil {
		return none, fmt.Errorf("nats: once %.256q: %w", key, err)
	}
	if added {
		return result, nil
	}
	outcome, found, err = outcomes.Get(ctx, key)
	switch {
	case err != nil:
		return none, fmt.Errorf("nats: once %.256q: %w", key, err)
	case !found: // it was forgotten just now
		return result, nil
	default:
		return outcomeOf[R](key, outcome)
	}
}

func outcomeOf[R any](key string, outcome []byte) (result R, err error) {
	if err = json.Unmarshal(outcome, &result); err != nil {
		return result, fmt.Errorf("nats: once %.256q: the outcome that is kept: %w", key, err)
	}
	return result, nil
}

// Outcomes returns outcomes that the server keeps, in a key-value bucket of
// that name, of letters, digits, - and _. They are forgotten after the time
// keep, which should be longer than a message may be delivered again; 0 means
// never. Any string is a key, however long, but an empty one.
func (c *Conn) Outcomes(ctx context.Context, bucket string, keep time.Duration) (Outcomes, error) {
	link.CheckContext(ctx, "nats: Outcomes")
	if !validName.MatchString(bucket) || keep < 0 {
		return nil, fmt.Errorf("nats: outcomes %q for %v: the name must be of 1 to 64 letters, digits, - and _, and the time not negative",
			bucket, keep)
	}
	var kv jetstream.KeyValue
	err := c.patiently(ctx, nil, "the bucket "+bucket, func(ctx context.Context) error {
		replicas, err := c.replicas(ctx, "KV_"+bucket)
		if err != nil {
			return err
		}
		kv, err = c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucket, Description: "outcomes of golda", TTL: keep, History: 1, Replicas: replicas,
		})
		return c.explain(err)
	})
	if err != nil {
		return nil, fmt.Errorf("nats: outcomes %q: %w", bucket, err)
	}
	return kvOutcomes{kv, c}, nil
}

// kvOutcomes is a bucket.
type kvOutcomes struct {
	kv   jetstream.KeyValue
	conn *Conn
}

// errNoKey refuses an empty key.
var errNoKey = errors.New("the key is empty")

// outcomeTime is how long the server may take to answer for an outcome.
const outcomeTime = 5 * time.Second

// Get is for [Once]. It asks the leader of the bucket: any server of a cluster
// answers KeyValue.Get, and one that was away may not have the outcome yet.
func (o kvOutcomes) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if key == "" {
		return nil, false, errNoKey
	}
	body, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + o.kv.Bucket() + "." + escape(key)})
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	m, err := o.conn.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET.KV_"+o.kv.Bucket(), body)
	if err != nil {
		return nil, false, o.conn.explain(err)
	}
	var answer struct {
		Error   *jetstream.APIError
		Message struct {
			Hdrs, Data []byte
		}
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, false, err
	}
	switch {
	case answer.Error == nil:
		return answer.Message.Data, !bytes.Contains(answer.Message.Hdrs, []byte("KV-Operation")), nil // otherwise a user has deleted it
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, false, nil
	default:
		return nil, false, o.conn.explain(answer.Error)
	}
}

// Add is for [Once].
func (o kvOutcomes) Add(ctx context.Context, key string, outcome []byte) (bool, error) {
	if key == "" {
		return false, errNoKey
	}
	_, err := o.kv.Create(ctx, escape(key), outcome)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return false, nil
	case err != nil:
		return false, explain(err)
	default:
		return true, nil
	}
}

// longestKey is how long a key may be in a bucket. A server closes the
// connection of a client whose subject has more than some 4,000 bytes.
const longestKey = 1 << 10

// escape returns a key that a bucket takes: of letters, digits, - and _, and
// all else as = and two digits of each byte. Of one that is too long it has the
// beginning and a hash, after == so that no other key becomes the same.
func escape(key string) string {
	escaped := escapeAll(key)
	if len(escaped) <= longestKey {
		return escaped
	}
	return fmt.Sprintf("%s==%x", escaped[:64], sha256.Sum256([]byte(key)))
}

func escapeAll(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
