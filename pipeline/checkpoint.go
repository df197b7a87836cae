package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/states"
)

// leastPeriod is the shortest period of a checkpoint.
const leastPeriod = 10 * time.Millisecond

// Checkpoint saves the positions of all feeds and the states of all stages in a
// file, together: with each period, and when the pipeline stops. The next
// process that makes the pipeline with the file resumes at the last save, also
// after a kill: each command counts once in each window, sum and snapshot.
//
//	p, err := pipeline.New("log", pipeline.Checkpoint("log.checkpoint", time.Second),
//		pipeline.Feed("lines", parse, source.Lines(file, 0)), parse.To(perMinute), perMinute.To(report))
//
// States are the open windows of package window and the snapshots of keyed
// stages, see [behaviour.Snapshotter]. To save, the pipeline holds back its
// feeds until all commands outside open windows have ended, which takes as long
// as the commands in flight; the file is written while the feeds go on. If that
// takes more than a minute, the feeds go on without, the log says which stages
// have commands, and the next period tries again. Commands that are submitted
// in other ways are waited for, too, and are not submitted again after a kill
// unless a state has them.
//
// A stop before the feeds are exhausted saves the open windows, and passes none
// of them on: the next process has them. When all feeds are exhausted,
// [Pipeline.Run] closes the windows, and saves the positions of the end.
// [Pipeline.Drain] passes windows on as without a checkpoint.
//
// The next process repeats the results that stages passed on between the last
// save and a kill, and not the results from before the save: a sink is called
// at least once, and its command has ended when it returns. So a sink must have
// written its effect when it returns, and its effects are exact if each
// replaces the one before of its key, such as the key and the beginning of the
// window: a row of a database, or a line of a file of which the last one of a
// key counts. A sum in the memory of a sink is lost with the process, unless
// the sink is a keyed stage with a [behaviour.Snapshotter]. A window that the
// clock closes may have other commands in the next process; one that is closed
// by its count, or at the end of the input, has the same.
//
// Sources must resume at a position, as the sources of source.Lines, Slice, Seq
// and From do. Values are saved as encoding/gob has them: New refuses types
// with fields that would be left out, and the types of snapshots must be
// registered with gob.Register. New refuses stages in other processes, joins by
// ticket, snapshots of stages without keys, and feeds with a source.Checkpoint.
// Instances without snapshots begin afresh, and [Pipeline.Add] and Remove
// refuse feeds and stages with states. The file is written as a new one that
// replaces the old one. It belongs to one process at a time, which locks a file
// of that name with the ending ".lock", and to these feeds, stages and types:
// for others, and if it is in use or damaged, [Pipeline.Start] returns a
// [*CheckpointError]. Remove the file to begin at the beginning. A file that
// cannot be written is logged with each period; if it cannot be written at the
// end, [StopError]'s Left names the checkpoint.
func Checkpoint(file string, period time.Duration) Part {
	return once("Checkpoint", func(s *settings) {
		if file == "" {
			s.flaw("Checkpoint", "the name of the file is empty")
		}
		if period < leastPeriod {
			s.flaw("Checkpoint", fmt.Sprintf("the period is %v, and must be at least %v", period, leastPeriod))
		}
		s.checkpoint = &checkpoint{file: file, period: period}
	})
}

// CheckpointError is why a [Checkpoint] cannot be used or saved.
type CheckpointError struct {
	File  string
	Stage string // whose state it is about; empty if it is about all
	Err   error
}

// Error returns the file, the stage and the reason.
func (e *CheckpointError) Error() string {
	if e.Stage == "" {
		return fmt.Sprintf("the checkpoint %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("the checkpoint %s: the state of stage %q: %v", e.File, e.Stage, e.Err)
}

// Unwrap returns the reason.
func (e *CheckpointError) Unwrap() error { return e.Err }

// keeper saves the checkpoints of a pipeline.
type keeper struct {
	*checkpoint

	lock   *os.File               // of the file, from the start on
	loads  map[*inbox.Inbox][]any // the loads of the commands that hold restored states, until they have been submitted
	whole  atomic.Bool            // all of them have
	ctx    context.Context        //nolint:containedctx // of the loop
	cancel context.CancelFunc
	ended  sync.WaitGroup // the loop
	gaveUp func(error)    // ends the pipeline
	failed atomic.Bool    // the last save
}

// newKeeper returns the keeper of a checkpoint; nil if there is none.
func newKeeper(c *checkpoint) *keeper {
	if c == nil {
		return nil
	}
	k := &keeper{checkpoint: c, loads: map[*inbox.Inbox][]any{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// mark returns a context for commands that the next process would get again
// from the checkpoint, until a later checkpoint has passed them: commands of
// feeds, and commands that hold restored states. Commands that they lead to
// have its values, too. Without a checkpoint it returns ctx.
func (k *keeper) mark(ctx context.Context, host *inbox.Pipeline) context.Context {
	if k == nil {
		return ctx
	}
	return context.WithValue(ctx, command.AgainKey{}, host)
}

// kept is the content of a checkpoint.
type kept struct {
	Pipeline string
	Feeds    []keptFeed
	Stages   []keptStage
}

// keptFeed is the position of a feed.
type keptFeed struct {
	Name     string
	Position int64
}

// keptStage is the state of a stage.
type keptStage struct {
	Name  string
	State states.State
}

// magic begins each file. The number is the version of the format.
const magic = "golda checkpoint 1\n"

var (
	errNoCheckpoint = errors.New("it is not a checkpoint of this version of golda")
	errWhole        = errors.New("the pipeline has a Checkpoint, which saves commands that have not ended: the source cannot hear of the end of each")
	errDamaged      = errors.New("it is damaged; restore an older one, or remove it to begin at the beginning")
)

func (c *checkpoint) fault(stage string, err error) error {
	return &CheckpointError{File: c.file, Stage: stage, Err: err}
}

// read returns what the file has; nil if there is no file.
func (c *checkpoint) read() (*kept, error) {
	data, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, c.fault("", err)
	}
	data, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		if len(data) < len(magic) {
			return nil, c.fault("", errDamaged)
		}
		return nil, c.fault("", errNoCheckpoint)
	}
	if len(data) < sha256.Size {
		return nil, c.fault("", errDamaged)
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if now := sha256.Sum256(body); !bytes.Equal(sum, now[:]) {
		return nil, c.fault("", errDamaged)
	}
	k := &kept{}
	if err := states.Decode(body, k); err != nil {
		return nil, c.fault("", fmt.Errorf("%w: %w", errDamaged, err))
	}
	return k, nil
}

// write replaces the file: after a crash there is the old one or the new one.
func (c *checkpoint) write(k *kept) error {
	body, err := states.Encode(k)
	if err != nil {
		return c.fault("", err)
	}
	sum := sha256.Sum256(body)
	if err := c.replace(bytes.Join([][]byte{[]byte(magic), sum[:], body}, nil)); err != nil {
		return c.fault("", err)
	}
	return nil
}

func (c *checkpoint) replace(data []byte) (err error) {
	next := c.file + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, c.file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(c.file))
}

// syncDir has a directory survive a crash of the machine, where that can be
// asked for.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	_ = dir.Sync() // some systems cannot
	return dir.Close()
}
