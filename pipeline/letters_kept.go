package pipeline

import (
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/reason"
)

// KeepLettersIn keeps the letters of the pipeline in a directory, so that they
// outlive the process: [Pipeline.DeadLetters], [Pipeline.Quarantine] and
// [Pipeline.Failures] have them again when the pipeline is started anew, until
// they are retried or dropped, or evicted: each store keeps 16,384 letters and
// 64 MiB of commands unless [KeepLetters] and [KeepLetterBytes] say otherwise,
// and the log says when it has dropped some. Without the directory a stop logs
// how many letters end with the process.
//
// A letter is written before the ticket of its command ends, and before a
// checkpoint passes it. It survives the process, however that ends. A power cut
// may cost the letters since the last checkpoint, which syncs the files; so
// does a stop. A letter that cannot be written, since the disk is full, is
// logged and stays in memory; it is written later, and until then no checkpoint
// is saved. If it cannot be written before the stop ends, the error of the stop
// says how many letters that are: see Unwritten of [StopError].
//
// Commands are written as JSON, or as a [LetterCodec] says. [New] refuses a
// stage whose commands JSON does not keep: commands with functions, channels,
// interfaces, or unexported fields. The same is true of the windows of a
// window.Aggregate, which its letters have. A command whose handler has not
// returned is not read: its letter is written without it, and with it when the
// handler returns. If that is not before the end of the stop, the letter comes
// back without its command; see Missing of [Letter]. Of a batch that is the
// command that the handler has not returned from, or the whole batch of a
// [behaviour.Batcher]; the commands behind it come back whole, and so do the
// commands before it whose ends were not counted yet: they were handled, and
// the error says so. JSON would change a string that is not UTF-8: the letter
// of a command with one comes back without it, too. After a restart the error
// of a letter is a text, and its stack and fingerprint are unchanged. A letter
// of a stage that is not there any more, or takes another type, stays, and can
// be dropped.
//
// The directory is made if it is not there, readable for its owner only: it has
// whole commands. [Pipeline.Start] opens it, and locks it until the pipeline
// has stopped; its error names the directory and the file. Each pipeline needs
// a directory of its own. The files are about as large as their letters, twice
// that and 1 MiB at most, for each of the three stores. A record that a killed
// process has not written whole is removed; a file that is damaged in the
// middle is copied to a file with the ending .damaged, and the letters that can
// be read are kept.
//
// Commands that a hard stop ends and that the next process has from a
// checkpoint, one of [Checkpoint] or of source.Checkpoint, leave no letters in
// the directory. Nor do commands of a source that keeps its own dead letters,
// such as an inlet of adapter/nats or a topic of adapter/watermill.
func KeepLettersIn(dir string) Part {
	return once("KeepLettersIn", func(s *settings) {
		if dir == "" {
			s.flaw("KeepLettersIn", "the directory has no name")
			return
		}
		s.home = filepath.Clean(dir)
	})
}

// LetterCodec says how commands of type C are encoded for [KeepLettersIn],
// [Letters.Export] and [Letters.Import], in place of JSON. It holds for the
// stages that take C, and for the windows of a window.Aggregate of that type.
// Any number of goroutines call the functions at once; a panic counts as an
// error.
func LetterCodec[C any](encode func(C) ([]byte, error), decode func([]byte) (C, error)) Part {
	of := reflect.TypeFor[C]()
	name := fmt.Sprintf("LetterCodec[%v]", of)
	return once(name, func(s *settings) {
		if encode == nil || decode == nil {
			s.flaw(name, "a function is nil")
			return
		}
		if s.codecs == nil {
			s.codecs = map[reflect.Type]letters.Codec{}
		}
		s.codecs[of] = letters.Codec{
			Type: of,
			Encode: func(cmd any) ([]byte, error) {
				c, _ := cmd.(C) // a nil command of an interface type is none
				return encode(c)
			},
			Decode: func(data []byte) (any, error) { return decode(data) },
		}
	})
}

// bound returns how much each store keeps.
func (s *settings) bound() letters.Bound {
	bound := s.keep
	switch {
	case bound.Letters != unset:
	case s.home != "":
		bound.Letters = defaultLettersKept
	default:
		bound.Letters = defaultLetters
	}
	return bound
}

// codecFor returns the codec for the letters of a stage.
func (s *settings) codecFor(c *engine.Core) (letters.Codec, error) {
	codec, err := s.codecOf(c.Spec().Type())
	sums := c.Inbox().Config().Summer()
	if err != nil || sums == nil {
		return codec, err
	}
	if of := sums.SumType(); of != nil && of != c.Spec().Type() {
		var other letters.Codec
		other, err = s.codecOf(of)
		codec.Sums = &other
	}
	return codec, err
}

func (s *settings) codecOf(of reflect.Type) (letters.Codec, error) {
	if codec, ok := s.codecs[of]; ok {
		return codec, nil
	}
	return letters.JSON(of)
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
