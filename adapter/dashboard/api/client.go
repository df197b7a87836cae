package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client asks the API of a dashboard. Any number of goroutines may use it.
type Client struct {
	URL   string       // of the dashboard, such as http://localhost:8077
	Token string       // for actions; empty if none is asked for
	HTTP  *http.Client // nil means http.DefaultClient
}

// longestProblem bounds how much of an answer is read as an error.
const longestProblem = 1 << 16

// Get reads the answer of a route below /golda/v1, such as "/snapshot", into a
// pointer. An answer that is an error is a [*Problem].
func (c *Client) Get(ctx context.Context, path string, into any) error {
	body, err := c.Open(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("%s: the answer is none of /golda/v1: %w", path, err)
	}
	return nil
}

// Open returns the body of a route below /golda/v1: a recording, an export, or
// the stream of events. The caller closes it.
func (c *Client) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path, nil)
}

// Stream calls each with the name and the JSON of every event of a route below
// /golda/v1 that is a stream, such as "/events" or "/tap". It returns the error
// of each, or nil when the stream has ended. Its calls come one after another.
func (c *Client) Stream(ctx context.Context, path string, each func(event string, data []byte) error) error {
	body, err := c.Open(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewReader(body) // an event is one line, of any length
	for event := ""; ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		name, data, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(name) {
		case "event":
			event = string(data)
		case "data":
			if err := each(event, data); err != nil {
				return err
			}
		}
	}
}

// Act asks for an action.
func (c *Client) Act(ctx context.Context, verb string, a Action) (d Done, err error) {
	text, err := json.Marshal(a)
	if err != nil {
		return d, err
	}
	body, err := c.do(ctx, http.MethodPost, "/actions/"+verb, text)
	if err != nil {
		return d, err
	}
	defer body.Close()
	return d, json.NewDecoder(body).Decode(&d)
}

func (c *Client) do(ctx context.Context, method, path string, text []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/golda/v1"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if text != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w (is the address that of a dashboard, and does its program run?)", err)
	}
	if answer.StatusCode < http.StatusBadRequest {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	problem := &Problem{Title: answer.Status, Status: answer.StatusCode}
	_ = json.NewDecoder(io.LimitReader(answer.Body, longestProblem)).Decode(problem) // another server may write something else
	return nil, problem
}
