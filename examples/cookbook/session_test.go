package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// session counts the clicks of one user until the user has been idle.
type session struct {
	user   string
	clicks int
	ended  chan<- string
}

func (s *session) HandleCommand(context.Context, string) behaviour.Outcome {
	s.clicks++
	return behaviour.OK(nil)
}

func (s *session) Stop() { s.ended <- fmt.Sprint(s.user, " clicked ", s.clicks, " times") }

func Example_sessionsThatEndWhenIdle() {
	ended := make(chan string, 10)
	sessions := stage.Keyed("sessions",
		func(user string) string { return user },
		func(user string) *session { return &session{user: user, ended: ended} },
		stage.Passivate(200*time.Millisecond, 100_000))

	clicks := func(_ context.Context, submit func(string) error) error {
		for _, user := range []string{"ann", "ann"} {
			if err := submit(user); err != nil {
				return err
			}
		}
		fmt.Println(<-ended)
		return submit("ann") // a new session
	}
	fmt.Println(run(pipeline.Feed("clicks", sessions, clicks)))
	fmt.Println(<-ended)
	// Output:
	// ann clicked 2 times
	// <nil>
	// ann clicked 1 times
}
