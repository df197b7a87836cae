package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// serveRedis runs a Redis server until the standard input ends, so that the
// server does not outlive the parent of this process.
func (o order) serveRedis() error {
	synced := "everysec"
	if o.Sync {
		synced = "always"
	}
	cmd := exec.CommandContext(context.Background(), "redis-server", "--unixsocket", o.Redis, "--port", "0", "--dir", o.Dir, "--save", "", //nolint:gosec // our own
		"--appendonly", "yes", "--appendfsync", synced, "--loglevel", "warning")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		untilEOF()
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("redis-server has ended: %w", errors.Join(err, errors.New("see its output above")))
	case <-asked:
		_ = cmd.Process.Kill()
		<-ended
		return nil
	}
}

// awaitRedis waits until a server answers.
func awaitRedis(ctx context.Context, socket string) error {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := client.Ping(ctx).Err()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
