package cookbook

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

type userKey struct{}

var errForbidden = errors.New("only the owner may do this")

// onlyOwner lets through the commands whose caller is the owner: the context of a handler has the values of its caller's.
func onlyOwner(ctx context.Context, in string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	if user := ctx.Value(userKey{}); user != "owner" {
		return behaviour.Error(fmt.Errorf("%w: %s by %v", errForbidden, in, user))
	}
	return next(ctx, cmd)
}

func Example_authoriseEachCommand() {
	closing := stage.Map("close", func(_ context.Context, account int) (string, error) {
		return fmt.Sprintf("account %d is closed", account), nil
	}, stage.Middleware(onlyOwner)) // pipeline.Middleware is for all stages
	p, err := pipeline.New("bank", closing)
	check(err)
	check(p.Start(context.Background()))
	for _, user := range []string{"guest", "owner"} {
		ctx := context.WithValue(context.Background(), userKey{}, user)
		done, err := closing.Call(ctx, 7)
		fmt.Printf("%q %v %v\n", done, err, errors.Is(err, errForbidden))
	}
	check(p.Stop(context.Background()))
	// Output:
	// "" stage "close": only the owner may do this: close by guest true
	// "account 7 is closed" <nil> false
}
