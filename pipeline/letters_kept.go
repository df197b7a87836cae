package pipeline

import (
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	stores "github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage/reason"
)

// KeepLetters sets how many letters the stores [Pipeline.DeadLetters],
// [Pipeline.Quarantine] and [Pipeline.Failures] keep, how much memory their
// commands may take, and in which directory they outlive the process:
//
//	pipeline.KeepLetters(letters.Options{Dir: "letters"})
//
// By default each store keeps 1,024 letters and 64 MiB of commands, in memory.
// A [letters.Type] beside it says how commands of one type are measured and
// written.
func KeepLetters(o letters.Options) Part {
	return once("KeepLetters", func(s *settings) {
		s.keep = o
		if o.Dir != "" {
			s.keep.Dir = filepath.Clean(o.Dir)
		}
	})
}

// letterType is a [letters.Type] of any type.
type letterType interface {
	LetterType(seal part.Seal) part.LetterType
}

// withType returns the option of how letters of commands of one type are
// measured and written.
func withType(t part.LetterType) Part {
	name := fmt.Sprintf("letters.Type[%v]", t.Of)
	return once(name, func(s *settings) {
		switch {
		case (t.Encode == nil) != (t.Decode == nil):
			s.flaw(name, "Encode and Decode belong together, and one is nil")
			return
		case t.Size == nil && t.Encode == nil:
			s.flaw(name, "all functions are nil")
			return
		}
		if s.types == nil {
			s.types = map[reflect.Type]part.LetterType{}
		}
		s.types[t.Of] = t
	})
}

// bound returns how much each store keeps.
func (s *settings) bound() stores.Bound {
	most := defaultLetters
	if s.keep.Dir != "" {
		most = defaultLettersKept
	}
	return stores.Bound{Letters: orNone(s.keep.Most, most), Bytes: orNone(s.keep.Bytes, defaultLetterBytes)}
}

// orNone returns a bound of which 0 is the default, and less than 0 is none.
func orNone[N int | int64](n, byDefault N) N {
	if n == 0 {
		return byDefault
	}
	return max(n, 0)
}

// codecFor returns the codec for the letters of a stage.
func (s *settings) codecFor(c *engine.Core) (stores.Codec, error) {
	codec, err := s.codecOf(c.Spec().Type())
	sums := c.Inbox().Config().Summer()
	if err != nil || sums == nil {
		return codec, err
	}
	if of := sums.SumType(); of != nil && of != c.Spec().Type() {
		var other stores.Codec
		other, err = s.codecOf(of)
		codec.Sums = &other
	}
	return codec, err
}

func (s *settings) codecOf(of reflect.Type) (stores.Codec, error) {
	if t := s.types[of]; t.Encode != nil {
		return stores.Codec{Type: of, Encode: t.Encode, Decode: t.Decode}, nil
	}
	return stores.JSON(of)
}

// withSum replaces the command of a letter by the result that its handler could
// not pass on, if the error has one: the other commands that the result was
// made of have ended and have no letters.
func withSum(end inbox.Ending) inbox.Ending {
	of := end.Inbox.Config().Summer()
	if of == nil || of.SumType() == nil || end.Reason != reason.Error || end.Answered {
		return end
	}
	// The methods of the error are user code. An error that crashes has no
	// result.
	_ = crash.Guard(end.Inbox.Name(), func() error {
		if sum, use := of.LostIn(end.Err); use != nil {
			end.Cmd = link.Used{Value: sum, Use: use}
		} else if sum != nil {
			end.Cmd = sum
		}
		return nil
	})
	return end
}

// withoutUse returns an ending as subscribers see it.
func withoutUse(end inbox.Ending) inbox.Ending {
	end.Cmd = link.Bare(end.Cmd)
	return end
}
