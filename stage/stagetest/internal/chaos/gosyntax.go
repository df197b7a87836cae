package chaos

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/supervisor"
)

// GoString returns the plan as a Go expression for a test outside of this
// package: without the fields that are zero, and with a policy of Control as
// fmt prints it. Rapid prints it, and so does a failing run of a plan.
func (p Plan) GoString() string {
	var b strings.Builder
	writeGo(&b, reflect.ValueOf(p), "")
	return b.String()
}

// constants are the names of values that Go has names for.
var constants = map[reflect.Type][]string{
	reflect.TypeFor[Action](): {
		"chaos.KillWorker", "chaos.KillSupervisor", "chaos.KillControlLoop", "chaos.KillPool", "chaos.KillFeed", "chaos.Swap",
		"chaos.Rescale", "chaos.Pause", "chaos.Resume", "chaos.AddStage", "chaos.RemoveStage", "chaos.RetryLetters", "chaos.Drain",
		"chaos.Upgrade", "chaos.DrainStage", "chaos.Reopen", "chaos.Rewire",
		"chaos.KillProcess",
	},
	reflect.TypeFor[Ending](): {
		"chaos.Softly", "chaos.Drained", "chaos.Hard", "chaos.Soon", "chaos.Twice", "chaos.Exhausted",
	},
	reflect.TypeFor[overflow.Rule]():       {"overflow.Wait", "overflow.Reject", "overflow.DropNewest", "overflow.DropOldest"},
	reflect.TypeFor[supervisor.Strategy](): {"supervisor.RestForOne", "supervisor.OneForOne", "supervisor.OneForAll"},
}

// writeGo writes a value as a Go expression. Each element of a list of structs
// has a line of its own.
func writeGo(b *strings.Builder, v reflect.Value, indent string) {
	names := constants[v.Type()]
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		b.WriteString(goDuration(time.Duration(v.Int())))
	case names != nil && number(v) < len(names):
		b.WriteString(names[number(v)])
	case v.Kind() == reflect.Struct && v.CanInterface():
		writeStruct(b, v, indent)
	case v.Kind() == reflect.Slice:
		writeList(b, v, indent)
	default:
		fmt.Fprintf(b, "%#v", plainly(v))
	}
}

func writeStruct(b *strings.Builder, v reflect.Value, indent string) {
	fmt.Fprintf(b, "%s{", v.Type())
	first := true
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || v.Field(i).IsZero() || field.Type.Kind() == reflect.Slice && v.Field(i).Len() == 0 {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		fmt.Fprintf(b, "%s: ", field.Name)
		writeGo(b, v.Field(i), indent)
	}
	b.WriteString("}")
}

func writeList(b *strings.Builder, v reflect.Value, indent string) {
	fmt.Fprintf(b, "%s{", v.Type())
	lines := v.Type().Elem().Kind() == reflect.Struct
	for i := range v.Len() {
		switch {
		case lines:
			b.WriteString("\n\t" + indent)
		case i > 0:
			b.WriteString(", ")
		}
		writeGo(b, v.Index(i), indent+"\t")
		if lines {
			b.WriteString(",")
		}
	}
	if lines && v.Len() > 0 {
		b.WriteString("\n" + indent)
	}
	b.WriteString("}")
}

// goDuration writes a duration in the largest unit in which it is a whole
// number.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"}} {
		if d%unit.d == 0 && d != 0 {
			return fmt.Sprintf("%d * %s", d/unit.d, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}

// number returns a whole number as an index.
func number(v reflect.Value) int {
	if v.CanUint() {
		return int(min(v.Uint(), 1<<30))
	}
	return int(v.Int())
}

// plainly returns a value of a basic type without its name; others as they are,
// if they may be read.
func plainly(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return unsigned(v.Uint())
	case v.CanInterface():
		return v.Interface()
	default:
		return v.String()
	}
}

// unsigned is printed in decimal, which fmt does not do with a uint64.
type unsigned uint64

// GoString returns the number in decimal.
func (u unsigned) GoString() string { return strconv.FormatUint(uint64(u), 10) }
