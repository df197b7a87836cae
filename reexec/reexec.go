// Package reexec upgrades a running program: it replaces the process by a new
// version of its file, and keeps the old version if the new one fails its
// check. Use it with durable queues: the new version handles the commands that
// are queued when the old one stops.
//
//	func main() {
//		p := &reexec.Program{Serve: serve, Check: check}
//		if err := p.Run(context.Background()); err != nil {
//			log.Fatal(err)
//		}
//	}
//
//	func serve(ctx context.Context) error {
//		conn, err := nats.Embed("/var/lib/shop", nats.Store{})
//		…
//		defer conn.Close(context.WithoutCancel(ctx))
//		…
//		return p.RunUntilSignal(ctx) // drains when ctx ends
//	}
//
// To upgrade, put the new file in the place of the old one, with a rename, and
// send SIGHUP: systemctl reload, with ExecReload=/bin/kill -HUP $MAINPID. The
// process keeps its number, its arguments, its environment and its working
// directory, so that service managers, terminals and containers notice nothing.
// A relative name of the program, its first argument, becomes an absolute one.
//
// # Steps
//
//  1. The new file is started as a second process that runs Check and nothing
//     else. The old version goes on meanwhile.
//  2. If that fails, the reason is logged, and nothing has changed.
//  3. The context of Serve ends. It drains, for as long as its pipeline allows,
//     gives unfinished commands back, closes its store, and returns.
//  4. The process becomes the new version, which opens the store and goes on.
//
// If the last step fails, because the file was removed or replaced meanwhile,
// Serve of the old version is called again. A process that is killed at any
// moment loses no command of a durable queue, as without an upgrade. All other
// goroutines end with step 4, and deferred functions of main do not run: flush
// buffers in Serve.
//
// # Limits
//
// Sockets are not handed over: clients that connect between 3 and 4 are
// refused, unless a load balancer holds the socket, or whatever has started the
// program, such as systemd, has passed it. A passed socket stays, and clients
// wait in its queue, if the program leaves its file open and not close-on-exec:
// keep the os.File that os.NewFile has returned in a variable of the package,
// and listen with net.FileListener.
//
// A new version that passes Check and fails later is a case for the service
// manager, which starts it again; let Check try the steps that may fail. A
// program that does not call Run starts to serve when it is checked, beside the
// old one, and is killed after CheckTime.
//
// On systems without exec, such as Windows, step 4 starts a new process, and
// Run returns. There is no SIGHUP there: see [Program.Replace].
package reexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/golda-dev/golda/internal/link"
)

// Program is a program that can be replaced while it runs. Its fields must not
// change after [Program.Run] was called. There is one in a process.
type Program struct {
	// Serve is the work of the program. When its context ends it must end and
	// close all resources that the next version opens, such as the store of a
	// durable queue; pipeline.RunUntilSignal drains then. Serve is called again
	// if the process could not be replaced.
	Serve func(ctx context.Context) error

	// Check reports whether this version can take the place of a running one:
	// that its pipeline can be made, and that it can read the commands that the
	// running version has queued. It is called in a process of its own beside
	// the running version, so it must open no store and no port; a pipeline can
	// be made with a store in a temporary directory. The offer is the result of
	// the running version's Offer, nil if it has none. A panic is an error. nil
	// means that it is enough if the new version gets as far as Run.
	Check func(ctx context.Context, offer []byte) error
	// Offer returns data for Check of the next version, such as a command as
	// this version queues it. nil means no data.
	Offer func() ([]byte, error)

	// Path is the file of the new version. Empty means the file from which this
	// process was started, under the same name: a symbolic link is followed
	// anew, from any working directory.
	Path string
	// CheckTime is how long Offer and Check may take, with the start of a
	// process. Then that is killed. 0 means 30 s.
	CheckTime time.Duration
	// Logger gets a line for the result of each upgrade: a refused upgrade is a
	// warning. nil means nothing is logged.
	Logger *slog.Logger

	mu        sync.Mutex      // guards the rest
	stop      func()          // ends the context of Serve; nil while it does not run
	ending    context.Context // ends with Serve, or with a signal to end
	replacing bool            // from the start of the check
	agreed    os.FileInfo     // of the file that has passed the check; nil if none has
}

const defaultCheckTime = 30 * time.Second

// Run calls Serve and returns its error, unless the process is replaced: then
// Run does not return. SIGHUP asks for a replacement, as [Program.Replace]
// does. After SIGINT or SIGTERM the process is not replaced any more: Run only
// notes them, and Serve must end then, as pipeline.RunUntilSignal does.
//
// Call Run before the program opens anything: a process that was started to
// check it calls Check in Run, and Run returns the result. Then the program
// must end, as it would without an upgrade.
func (p *Program) Run(ctx context.Context) error {
	link.CheckContext(ctx, "reexec: Run")
	if secret := os.Getenv(checkEnv); secret != "" {
		return p.answer(ctx, secret)
	}
	if err := p.fault(); err != nil {
		return fmt.Errorf("reexec: %w", err)
	}
	path, err := p.path()
	if err != nil {
		return fmt.Errorf("reexec: the file of the program: %w", err)
	}
	p.mu.Lock()
	if p.stop == nil {
		p.Path = path
	}
	p.mu.Unlock()
	for {
		again, err := p.serve(ctx)
		if !again {
			return err
		}
	}
}

// fault returns an error if a field of the program is wrong.
func (p *Program) fault() error {
	var errs []error
	if p.Serve == nil {
		errs = append(errs, errors.New("the function Serve is nil"))
	}
	if p.CheckTime < 0 {
		errs = append(errs, fmt.Errorf("CheckTime is %v; use 0 for %v", p.CheckTime, defaultCheckTime))
	}
	return errors.Join(errs...)
}

// path returns the absolute name of the file.
func (p *Program) path() (string, error) {
	if p.Path != "" {
		return filepath.Abs(p.Path)
	}
	return started, errStarted
}

// serve calls Serve, and replaces the process if that was agreed. It returns
// whether to serve again, because that has failed.
func (p *Program) serve(ctx context.Context) (again bool, err error) {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	ending, end := context.WithCancel(ctx)
	defer end()
	if err := p.begin(ending, cancel); err != nil {
		return false, err
	}
	ended := p.watch(ending, end)
	var agreed os.FileInfo
	func() {
		defer func() { agreed = ended() }() // also after a panic
		err = p.Serve(serving)
	}()
	if agreed == nil || ctx.Err() != nil {
		return false, err
	}
	if err != nil {
		p.log().Warn("this version did not end well; the new one goes on", "reason", err)
	}
	if err := p.become(agreed); err != nil {
		p.log().Error("the process was not replaced; this version goes on", "file", p.Path, "reason", err)
		return true, nil
	}
	return false, err
}

// become replaces the process, unless the file has changed since the check: a
// drain may take long.
func (p *Program) become(agreed os.FileInfo) error {
	now, err := os.Stat(p.Path)
	if err != nil {
		return err
	}
	if !os.SameFile(now, agreed) || now.Size() != agreed.Size() || !now.ModTime().Equal(agreed.ModTime()) {
		return errChanged
	}
	return become(p.Path)
}

var (
	errTwice   = errors.New("reexec: Run was called twice")
	errBusy    = errors.New("another replacement is under way")
	errEnded   = errors.New("the program does not run, or ends")
	errChanged = errors.New("the file has changed since it was checked")
)

// begin notes that Serve runs.
func (p *Program) begin(ending context.Context, stop func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return errTwice
	}
	p.stop, p.ending, p.replacing, p.agreed = stop, ending, false, nil
	return nil
}

// end notes that Serve has returned, or is about to and must not be followed by
// another version. It returns the file of the next version.
func (p *Program) end() (agreed os.FileInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = nil
	return p.agreed
}

// watch handles signals until ended is called. Ended returns the file of the
// next version, or nil if there is none.
func (p *Program) watch(ctx context.Context, cancel func()) (ended func() (agreed os.FileInfo)) {
	hangup, quit := make(chan os.Signal, 1), make(chan os.Signal, 1)
	if len(hangups) > 0 {
		signal.Notify(hangup, hangups...)
	}
	signal.Notify(quit, os.Interrupt, syscall.SIGTERM)
	var quits atomic.Bool
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-hangup:
				if err := p.Replace(ctx); err != nil {
					p.log().Warn("no new version; this one goes on", "reason", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	watching.Go(func() {
		select {
		case <-quit:
			quits.Store(true)
			signal.Stop(quit) // a second signal acts as it would without Run
			cancel()
		case <-ctx.Done():
		}
	})
	return func() os.FileInfo {
		cancel()
		watching.Wait()
		signal.Stop(quit)
		agreed := p.end()
		if len(quit) > 0 || quits.Load() || agreed == nil {
			signal.Stop(hangup)
			return nil
		}
		if len(hangups) > 0 {
			signal.Ignore(hangups...) // until the new version listens, which would be ended by one
		}
		return agreed
	}
}

// Replace checks the new version, and replaces the process by it: then it
// returns nil, and the context of Serve ends. An error says why the new version
// was refused, and nothing has changed: it wraps fs.ErrNotExist,
// fs.ErrPermission, an *exec.ExitError and the like. If ctx ends before the
// check does, the error is its cause; if the program ends before, Replace
// returns an error too. Any goroutine may call Replace, such as an HTTP handler
// for administrators.
func (p *Program) Replace(ctx context.Context) error {
	link.CheckContext(ctx, "reexec: Replace")
	if err := p.replace(ctx); err != nil {
		return fmt.Errorf("reexec: %w", err)
	}
	return nil
}

func (p *Program) replace(ctx context.Context) error {
	p.mu.Lock()
	path, ending, busy := p.Path, p.ending, p.replacing
	ends := p.stop == nil || ending.Err() != nil
	if !ends {
		p.replacing = true
	}
	p.mu.Unlock()
	switch {
	case ends:
		return errEnded
	case busy:
		return errBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ending, func() { cancel(errEnded) })()
	file, err := p.try(ctx, path)
	p.mu.Lock()
	stop := p.stop
	if ending.Err() != nil { // it is another run of Serve, or none
		stop = nil
	} else {
		p.replacing, p.agreed = err == nil, file
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("the new version %s: %w", path, err)
	case stop == nil:
		return errEnded
	}
	p.log().Info("the new version is checked; this one stops", "file", path)
	stop()
	return nil
}

func (p *Program) log() *slog.Logger {
	if p.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Logger
}
