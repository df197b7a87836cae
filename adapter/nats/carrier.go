package nats

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/pipeline/remote"
)

// Carrier carries commands between the processes of a pipeline, for
// [pipeline.RunsHere]. Each stage that commands of other processes come to has
// an [Inlet], with all properties of inlets: at least once, dead letters,
// back-pressure, a server that is away. Temporary errors of Publish are retried
// until they pass: a stage elsewhere whose stream is full, or whose server is
// away, is a slow stage.
//
// The inlet of stage "ocr" of pipeline "scans" has the name "scans_ocr", and a
// name with a hash in it if one of the two has other characters than letters,
// digits and -, if both together are longer than 63, or if the stage is DEAD or
// BACK. [NewInlet] with that name and the same options shows its [Status] and
// [Letters].
//
// Callers that wait for a result call a process that runs the stage, over core
// NATS, as nodes of [NewTransport] do. A stage that no process runs is
// stage.ErrNotRunning, a process that is lost transport.ErrUnreachable, a
// server that is away [ErrAway].
//
// The inlet of a keyed stage has [Options.Partitions], so that the commands of
// a key keep their order in any number of processes. Its messages come from the
// stage only, and [Options.UntilEmpty] is not for it. A keyed stage is not
// called from other processes.
//
// A process that dies after it has sent a command, and before the message from
// which that command came is acknowledged, sends the command again when the
// message is delivered again: as a new message, which [Options.Dedup] does not
// recognise.
type Carrier struct {
	conn     *Conn
	pipeline string
	options  Options[any]
	stages   map[string]carried
	faults   []error
	calls    *exchange
	results  results

	mu      sync.Mutex
	unasked map[string]bool // the stages of Carry that no line was asked for
}

// CarrierOption is what [Carry] and [CarryResult] make, for [NewCarrier].
type CarrierOption struct {
	stage string
	as    carried

	result reflect.Type // of CarryResult
	codec  Codec[any]
}

// carried is how the commands of one stage are carried.
type carried struct {
	of reflect.Type
	o  Options[any]
}

// NewCarrier returns the carrier of the pipeline of a name. Pipelines of one
// name are one pipeline to the server, whatever their stages: give different
// ones different names, or accounts of the server of their own. All processes
// need the same name and options. The options are for each inlet; a Codec among
// them is for all stages, and must give back commands of the type that it was
// given. nil means JSON, if JSON keeps all of a command: no unexported fields,
// and none of interfaces, functions or channels, unless a type has MarshalJSON
// and UnmarshalJSON, or a field the tag json:"-". [Carry] gives a stage options
// of its own, such as a codec: that is trusted. pipeline.New reports all
// faults. Nothing is made in the server before the pipeline starts.
//
// A nil conn panics.
func NewCarrier(conn *Conn, pipeline string, o Options[any], stages ...CarrierOption) *Carrier {
	if conn == nil {
		panic("nats: NewCarrier: the Conn is nil")
	}
	c := &Carrier{conn: conn, pipeline: pipeline, options: o, stages: map[string]carried{}, unasked: map[string]bool{}}
	c.results = results{map[reflect.Type]Codec[any]{}, o.Codec}
	c.calls = &exchange{conn: conn, cfg: TransportConfig{Heartbeat: callHeartbeat, Logger: o.Logger}, transits: newTransits()}
	if pipeline == "" {
		c.faults = append(c.faults, errors.New("nats: NewCarrier: the pipeline has no name"))
	}
	for _, s := range stages {
		if s.result != nil {
			c.carryResult(s)
			continue
		}
		if _, there := c.stages[s.stage]; there || s.as.of == nil {
			c.faults = append(c.faults, fmt.Errorf("nats: NewCarrier: Carry(%q) is given twice, or was not made with Carry", s.stage))
		}
		c.stages[s.stage], c.unasked[s.stage] = s.as, true
	}
	return c
}

// Carry gives the inlet of a stage options of its own, in place of the options
// of [NewCarrier]. The start of the pipeline fails if there is no such stage,
// or if no commands come to it from other processes, so that it has no inlet.
func Carry[C any](stage string, o Options[C]) CarrierOption {
	return CarrierOption{stage: stage, as: carried{reflect.TypeFor[C](), erase(o)}}
}

// CarryResult gives the results of one type a codec, in place of the codec of
// [NewCarrier], or JSON. It is used for results of stages that run elsewhere,
// when a caller waits for the result with [stage.Call].
//
// [stage.Call]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Call
func CarryResult[R any](codec Codec[R]) CarrierOption {
	o := CarrierOption{result: reflect.TypeFor[R]()}
	if codec != nil {
		o.codec = erased[R]{codec}
	}
	return o
}

// carryResult sets the codec of the results of one type.
func (c *Carrier) carryResult(o CarrierOption) {
	switch {
	case o.codec == nil:
		c.faults = append(c.faults, fmt.Errorf("nats: NewCarrier: CarryResult[%v] without a codec", o.result))
	case o.result.Kind() == reflect.Interface:
		c.faults = append(c.faults,
			fmt.Errorf("nats: NewCarrier: CarryResult[%v]: the type is an interface, and no result is of that type", o.result))
	case c.results.own[o.result] != nil:
		c.faults = append(c.faults, fmt.Errorf("nats: NewCarrier: CarryResult[%v] is given twice", o.result))
	}
	c.results.own[o.result] = o.codec
}

// CheckPipeline is for package pipeline: the carrier of another pipeline would
// mix the commands of both.
func (c *Carrier) CheckPipeline(name string) error {
	if c.pipeline == name || c.pipeline == "" { // Line reports that it has no name
		return nil
	}
	return fmt.Errorf("nats: NewCarrier(%q) is for another pipeline than %q: it would mix the commands of both", c.pipeline, name)
}

// Line is for package pipeline.
func (c *Carrier) Line(stage string, commands reflect.Type, key func(cmd any) uint64) (remote.Line, error) {
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	c.mu.Lock()
	delete(c.unasked, stage)
	c.mu.Unlock()
	l := &carriedLine{of: c, conn: c.conn, stage: stage, name: lineName(c.pipeline, stage), o: c.options}
	l.callees = &callees{nc: c.conn.nc, denials: c.conn.denials, inlet: l.name, silence: time.Duration(silences) * c.calls.cfg.Heartbeat}
	if own, ok := c.stages[stage]; ok {
		if own.of != commands {
			return nil, fmt.Errorf("nats: Carry(%q) is for %v, and the stage takes %v", stage, own.of, commands)
		}
		l.o = own.o
	}
	if l.o.Codec == nil {
		if problem := kept.ByJSON(commands); problem != "" {
			return nil, fmt.Errorf("nats: JSON cannot carry %v: %s; change the type, or give the stage a codec with nats.Carry",
				commands, problem)
		}
		l.o.Codec = jsonOf{commands}
	}
	if forgetsTypes(l.o.Codec, commands) {
		return nil, fmt.Errorf("nats: the codec JSON[any] does not give back a %v; without a Codec it is JSON that does", commands)
	}
	l.o.Codec = checked{l.o.Codec, commands}
	switch {
	case key != nil && l.o.Fair != nil:
		return nil, fmt.Errorf("nats: the stage %q is keyed, and its inlet cannot have Options.Fair: give NewCarrier the option with nats.Carry, for other stages", stage)
	case key != nil && l.o.Lane != nil:
		return nil, fmt.Errorf("nats: the stage %q is keyed, and its inlet cannot have Options.Lanes: give NewCarrier the option with nats.Carry, for other stages", stage)
	case key != nil && l.o.UntilEmpty:
		return nil, errUntilEmpty
	case l.o.check(l.name) != nil:
	case l.o.Fair != nil:
		l.keys = sharing(l.o.Fair, l.o.Partitions, l.o.AtOnce)
	case l.o.Lane != nil:
		l.o.Partitions, l.keys = 0, inLanes(l.o.Lanes, l.o.Lane)
	case key == nil:
		l.o.Partitions = 0
	default:
		setDefault(&l.o.Partitions, defaultPartitions)
		l.o.MaxInFlight = max(l.o.filled().MaxInFlight, l.o.Partitions)
		l.keys = partitioning[any]{parts: l.o.Partitions, of: partitionOf(key, l.o.Partitions)}
	}
	return l, l.o.check(l.name)
}

// checkAsked returns an error if options were given to a stage that has no
// line. New has asked for all lines when the first is opened.
func (c *Carrier) checkAsked() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unasked) == 0 {
		return nil
	}
	return fmt.Errorf("nats: Carry is given for %q, and the pipeline has no such stages, or no commands of other processes come to them",
		slices.Sorted(maps.Keys(c.unasked)))
}

// plainName is a name of which two with _ between them can be told apart.
var plainName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// otherCharacters are the characters that a line's name does not have.
var otherCharacters = regexp.MustCompile(`[^A-Za-z0-9-]`)

// lineName returns the name of a stage's inlet.
func lineName(pipeline, stage string) string {
	const longest = 63
	name := pipeline + "_" + stage
	if plainName.MatchString(pipeline) && plainName.MatchString(stage) && len(name) <= longest && !isReserved(name) {
		return name
	}
	readable := otherCharacters.ReplaceAllString(pipeline, "-") + "_" + otherCharacters.ReplaceAllString(stage, "-")
	hash := sha256.Sum256([]byte(pipeline + "\x00" + stage))
	return fmt.Sprintf("%s_%x", strings.TrimRight(readable[:min(len(readable), 50)], "_"), hash[:4])
}

// erase returns options for commands of any type.
func erase[C any](o Options[C]) Options[any] {
	e := Options[any]{
		MaxBytes: o.MaxBytes, MaxMessages: o.MaxMessages, Dedup: o.Dedup, Replicas: o.Replicas, Memory: o.Memory,
		MaxInFlight: o.MaxInFlight, AckWait: o.AckWait, Retry: o.Retry, UntilEmpty: o.UntilEmpty,
		Jobs: o.Jobs, Lanes: o.Lanes, AtOnce: o.AtOnce, Partitions: o.Partitions, Logger: o.Logger,
	}
	if o.Codec != nil {
		e.Codec = erased[C]{o.Codec}
	}
	if o.Fair != nil {
		e.Fair = func(cmd any) (string, int) { return o.Fair(cmd.(C)) }
	}
	if o.Lane != nil {
		e.Lane = func(cmd any) string { return o.Lane(cmd.(C)) }
	}
	return e
}

// erased is a codec without its type.
type erased[C any] struct{ of Codec[C] }

// Encode is for an inlet.
func (e erased[C]) Encode(cmd any) (Payload, error) {
	c, ok := cmd.(C)
	if !ok && cmd != nil {
		return Payload{}, fmt.Errorf("the codec takes %v, and was given %T", reflect.TypeFor[C](), cmd)
	}
	return e.of.Encode(c)
}

// Decode is for an inlet.
func (e erased[C]) Decode(p Payload) (any, error) { return e.of.Decode(p) }

// jsonOf is [JSON] for a type that is known when the program runs.
type jsonOf struct{ of reflect.Type }

// Encode is for an inlet.
func (j jsonOf) Encode(cmd any) (Payload, error) { return JSON[any]{Type: j.of.String()}.Encode(cmd) }

// Decode is for an inlet.
func (j jsonOf) Decode(p Payload) (any, error) {
	data, err := JSON[json.RawMessage]{Type: j.of.String()}.Decode(p)
	if err != nil {
		return nil, err
	}
	cmd := reflect.New(j.of)
	err = json.Unmarshal(data, cmd.Interface())
	return cmd.Elem().Interface(), err
}

// checked is a codec that gives back nothing but commands of a type: what
// another codec, or another process, has made is undecodable.
type checked struct {
	Codec[any]

	of reflect.Type
}

// Decode is for an inlet.
func (c checked) Decode(p Payload) (any, error) {
	cmd, err := c.Codec.Decode(p)
	if err != nil {
		return nil, err
	}
	t, fits := reflect.TypeOf(cmd), false
	if c.of.Kind() == reflect.Interface {
		fits = t == nil || t.Implements(c.of)
	} else {
		fits = t == c.of
	}
	if !fits {
		return nil, fmt.Errorf("the codec returned a %T, and the stage takes %v", cmd, c.of)
	}
	return cmd, nil
}

// forgetsTypes reports whether a codec reads commands of a type as something
// else: numbers, maps and slices.
func forgetsTypes(codec Codec[any], commands reflect.Type) bool {
	switch codec.(type) {
	case JSON[any], *JSON[any]:
		return commands != reflect.TypeFor[any]()
	default:
		return false
	}
}

// carriedLine is the line of one stage.
type carriedLine struct {
	of   *Carrier
	conn *Conn

	stage   string
	name    string // of its inlet
	o       Options[any]
	keys    partitioning[any]
	callees *callees

	inlet *Inlet[any] // set by Open
}

// Open is for package pipeline.
func (l *carriedLine) Open(ctx context.Context) (err error) {
	if err := l.of.checkAsked(); err != nil {
		return err
	}
	if l.inlet, err = newInlet(ctx, l.conn, l.name, l.o, l.keys); err != nil {
		return err
	}
	if there := l.inlet.keys.parts; there != l.keys.parts {
		return fmt.Errorf("nats: inlet %q: the stream has %d partitions, and the stage has no keys: remove the stream when it is empty",
			l.name, there)
	}
	return nil
}

// Send is for package pipeline.
func (l *carriedLine) Send(ctx context.Context, cmds []any) []error {
	return l.inlet.carry(ctx, cmds, nil)
}

// SendWith is for package pipeline.
func (l *carriedLine) SendWith(ctx context.Context, cmds []any, of []context.Context) []error {
	return l.inlet.carry(ctx, cmds, of)
}

// Feed is for package pipeline.
func (l *carriedLine) Feed(ctx context.Context, submit func(cmd any, ended func(err error)) error) error {
	return l.inlet.feedAlone(ctx, submit)
}
