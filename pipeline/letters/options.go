package letters

import (
	"reflect"

	"github.com/golda-dev/golda/internal/part"
)

// Options say how many letters the stores of a pipeline keep, and where; they
// are given to pipeline.KeepLetters. The zero Options are the defaults.
//
// A full store drops an old letter for a new one, and logs how many it has
// dropped, unless a function of pipeline.DeadLetters or pipeline.Failures got
// them. With a directory it logs that in any case: at the first, and whenever
// the number has doubled.
type Options struct {
	// Most is how many letters each of the three stores keeps: dead letters,
	// quarantine and failures. Zero is 1,024, and 16,384 with a directory; -1
	// is none, which pipeline.New refuses with a directory.
	Most int
	// Bytes is how many bytes the commands in each store may have together.
	// Zero is 64 MiB; with -1 letters have no commands. At the bound letters
	// are dropped as from a store that has too many, first of the stage and
	// cause whose commands are the largest together. A command that is larger
	// than the bound is not kept; its letter is, with a Missing that says so.
	//
	// The size of a command is an estimate that reads no memory which the
	// program may still change: the value itself with the strings, slices and
	// arrays in it, but not the data behind pointers, in maps, or behind the
	// elements of slices; see Size of [Type]. With a directory it is the size
	// in the file, if that is larger.
	Bytes int64
	// Dir is a directory in which letters outlive the process; empty if they
	// are in memory only. The stores have them again when the pipeline is
	// started anew, until they are retried or dropped, or evicted. Without a
	// directory a stop logs how many letters end with the process.
	//
	// A letter is written before the ticket of its command ends, and before a
	// checkpoint passes it. It survives the process, however that ends. A power
	// cut may cost the letters since the last checkpoint, which syncs the
	// files; so does a stop. A letter that cannot be written, since the disk is
	// full, is logged and stays in memory; it is written later, and until then
	// no checkpoint is saved. If it cannot be written before the stop ends, the
	// error of the stop says how many letters that are: see Unwritten of
	// pipeline.StopError.
	//
	// Commands are written as JSON, or as a [Type] says. pipeline.New refuses a
	// stage whose commands JSON does not keep: commands with functions,
	// channels, interfaces, or unexported fields. The same is true of the
	// windows of a window.Aggregate, which its letters have. A command whose
	// handler has not returned is not read: its letter is written without it,
	// and with it when the handler returns. If that is not before the end of
	// the stop, the letter comes back without its command; see Missing of
	// [Letter]. Of a batch that is the command that the handler has not
	// returned from, or the whole batch of a behaviour.Batcher; the commands
	// behind it come back whole, and so do the commands before it whose ends
	// were not counted yet: they were handled, and the error says so. JSON
	// would change a string that is not UTF-8: the letter of a command with one
	// comes back without it, too. After a restart the error of a letter is a
	// text, and its stack and fingerprint are unchanged. A letter of a stage
	// that is not there any more, or takes another type, stays, and can be
	// dropped.
	//
	// The directory is made if it is not there, readable for its owner only: it
	// has whole commands. Start of the pipeline opens it, and locks it until
	// the pipeline has stopped; its error names the directory and the file.
	// Each pipeline needs a directory of its own. The files are about as large
	// as their letters, twice that and 1 MiB at most, for each of the three
	// stores. A record that a killed process has not written whole is removed;
	// a file that is damaged in the middle is copied to a file with the ending
	// .damaged, and the letters that can be read are kept.
	//
	// Commands that a hard stop ends and that the next process has from a
	// checkpoint, one of pipeline.Checkpoint or of source.Checkpoint, leave no
	// letters in the directory. Nor do commands of a source that keeps its own
	// dead letters, such as an inlet of adapter/nats or a topic of
	// adapter/watermill.
	Dir string
}

// Type says how the letters of commands of type C are measured and written. It
// is a part of a pipeline, and holds for the stages that take C; Encode and
// Decode also for the windows of a window.Aggregate of that type. Any number of
// goroutines call the functions at once.
//
//	p, err := pipeline.New("mail", send, letters.Type[*Mail]{Size: func(m *Mail) int { return len(m.Body) }})
type Type[C any] struct {
	// Size says how many bytes of memory a command takes, for Bytes of
	// [Options]: for commands whose data is behind pointers or in maps.
	// Goroutines that end commands call it, and not while a handler still has
	// the command, so it must be quick; if the program changes commands that
	// have ended, it must take its locks. If it is nil or panics, the estimate
	// holds.
	Size func(cmd C) int
	// Encode and Decode write and read commands in place of JSON, for Dir of
	// [Options], [Store.Export] and [Store.Import]. Either both are nil or
	// neither is. A panic counts as an error.
	Encode func(cmd C) ([]byte, error)
	Decode func(data []byte) (C, error)
}

// Part makes the type a part of a pipeline.
func (Type[C]) Part(part.Seal) {}

// LetterType returns the functions without their type. It is for package
// pipeline.
func (t Type[C]) LetterType(part.Seal) part.LetterType {
	all := part.LetterType{Of: reflect.TypeFor[C]()}
	if t.Size != nil {
		all.Size = func(cmd any) int {
			c, _ := cmd.(C) // a nil command of an interface type is none
			return t.Size(c)
		}
	}
	if t.Encode != nil {
		all.Encode = func(cmd any) ([]byte, error) {
			c, _ := cmd.(C)
			return t.Encode(c)
		}
	}
	if t.Decode != nil {
		all.Decode = func(data []byte) (any, error) { return t.Decode(data) }
	}
	return all
}
