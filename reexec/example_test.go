package reexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/golda-dev/golda/reexec"
)

// Order is what the program queues.
type Order struct{ Version int }

// A program whose next version must be able to read the orders that this one queues. Send it SIGHUP to have it replaced.
func ExampleProgram() {
	p := &reexec.Program{
		Serve: func(ctx context.Context) error {
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // pipeline.RunUntilSignal does that
			defer stop()
			fmt.Println("serving") // opens the store, and runs the pipeline until ctx ends
			return ctx.Err()
		},
		Offer: func() ([]byte, error) { return json.Marshal(Order{Version: 2}) },
		Check: func(_ context.Context, offer []byte) error { // runs in a process of the next version
			var o Order
			if err := json.Unmarshal(offer, &o); err != nil {
				return err
			}
			if o.Version > 2 {
				return fmt.Errorf("orders of version %d are queued", o.Version)
			}
			return nil
		},
	}
	fmt.Println(p.Run(context.Background()))
	// Output:
	// serving
	// <nil>
}
