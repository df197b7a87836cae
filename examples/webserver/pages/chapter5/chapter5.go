// Package chapter5 is the web server of chapter 5 of the dissertation of Cruz
// (2015) as a pipeline of five stages, for a program that serves and for one
// that compares policies.
package chapter5

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// patience is how long the server waits for a client to send its request, or to
// take the answer.
const patience = 5 * time.Second

// request is a connection with its one request. Between parse and send the two
// halves of its page are made, in two stages at once.
type request struct {
	conn   net.Conn
	target string
	halves [2]string
	ready  atomic.Int32
	ended  atomic.Bool
}

// half is one half of the page of a request: the command of the last stage.
type half struct {
	of   *request
	at   int
	text string
}

// The places of the two halves in the answer.
const (
	staticHalf = iota
	dynamicHalf
)

// Config is how large the stages are, and how long a dynamic page takes. Rows,
// Columns and Workers are required.
type Config struct {
	Workers       int // the most that a stage may have; it starts with one
	Pool          int // workers that all stages share; 0: each stage has its own
	Instances     int // of a stage; 0: as many as it may have workers
	Capacity      int // of each queue; 0: the engine's default
	Rows, Columns int // of the additions of a dynamic page
}

// Server is the server, with its counts. A Server is for one pipeline.
type Server struct {
	config            Config
	sent, bad, failed atomic.Uint64
}

// New returns a server that has no pipeline yet.
func New(c Config) *Server { return &Server{config: c} }

// Counts returns how many pages were sent, how many connections had no request,
// and how many requests failed. It may be called at any time.
func (p *Server) Counts() (sent, bad, failed uint64) {
	return p.sent.Load(), p.bad.Load(), p.failed.Load()
}

// Accepted is the source of the connections of a listener. It closes the
// listener when it ends.
func Accepted(l net.Listener) source.Source[net.Conn] {
	return func(ctx context.Context, submit func(net.Conn) error) error {
		defer context.AfterFunc(ctx, func() { _ = l.Close() })() // Accept returns then
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if err := submit(c); err != nil {
				_ = c.Close() // it was not accepted by the pipeline
				return err
			}
		}
	}
}

// Pipeline makes the pipeline, of its stages and other parts: pipeline.Control,
// for example. A stage declares the next ones, so they are made first.
func (p *Server) Pipeline(connections source.Source[net.Conn], more ...pipeline.Part) (*pipeline.Pipeline, error) {
	send := stage.Func("send", p.send, p.options()...)
	static := stage.Func("static", static(send), p.options(stage.Out(send))...)
	dynamic := stage.Func("dynamic", p.dynamic(send), p.options(stage.Out(send))...)
	parse := stage.Func("parse", p.parse(dynamic, static), p.options(stage.Out(dynamic, static))...)
	first := stage.Func("start", start(parse), p.options(stage.Out(parse))...)
	stages := []pipeline.Part{first, parse, dynamic, static, send}
	if p.config.Pool > 0 {
		stages = []pipeline.Part{pipeline.Group("pool", p.config.Pool, p.config.Pool, stages...)}
	}
	stages = append(stages, pipeline.Feed("accept", first, connections), pipeline.Entry(first), pipeline.DeadLetters(p.lost))
	return pipeline.New("pages", append(stages, more...)...)
}

func (p *Server) options(more ...stage.Option) []stage.Option {
	more = append(more, stage.Workers(1, p.config.Workers))
	if p.config.Instances > 0 {
		more = append(more, stage.Instances(p.config.Instances))
	}
	if p.config.Capacity > 0 {
		more = append(more, stage.Capacity(p.config.Capacity))
	}
	return more
}

// start is the first stage: it takes a connection that was accepted.
func start(parse *stage.Stage[*request]) behaviour.Func[net.Conn] {
	return func(_ context.Context, c net.Conn) behaviour.Outcome {
		return behaviour.Forward(parse, &request{conn: c})
	}
}

// parse reads the request, and has both halves of the page made.
func (p *Server) parse(dynamic, static *stage.Stage[*request]) behaviour.Func[*request] {
	return func(ctx context.Context, r *request) behaviour.Outcome {
		if err := r.read(); err != nil {
			p.bad.Add(1)
			r.answer(http.StatusBadRequest, "a request of HTTP/1.1 was expected\n")
			return behaviour.OK(nil)
		}
		if err := behaviour.Emit(ctx, static, r); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.Forward(dynamic, r)
	}
}

func (r *request) read() error {
	if err := r.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	req, err := http.ReadRequest(bufio.NewReader(http.MaxBytesReader(nil, r.conn, http.DefaultMaxHeaderBytes)))
	if err != nil {
		return err
	}
	r.target = req.URL.Path
	return nil
}

// dynamic computes its half of the page.
func (p *Server) dynamic(send *stage.Stage[half]) behaviour.Func[*request] {
	return func(_ context.Context, r *request) behaviour.Outcome {
		return behaviour.Forward(send, half{r, dynamicHalf, fmt.Sprintf("the sum is %d\n", Added(p.config.Rows, p.config.Columns))})
	}
}

// Added is the script of the dissertation's dynamic page: rows × columns
// additions.
func Added(rows, columns int) (count int) {
	for i := range rows {
		for j := columns - 1; j >= 0; j-- {
			count += i - j
		}
	}
	return count
}

// static makes the other half, a text.
func static(send *stage.Stage[half]) behaviour.Func[*request] {
	return func(_ context.Context, r *request) behaviour.Outcome {
		return behaviour.Forward(send, half{r, staticHalf, fmt.Sprintf("you asked for %s\n", r.target)})
	}
}

// send joins the two halves of a page: the second one that comes has the answer
// sent.
func (p *Server) send(_ context.Context, h half) behaviour.Outcome {
	r := h.of
	r.halves[h.at] = h.text
	if r.ready.Add(1) < int32(len(r.halves)) {
		return behaviour.OK(nil)
	}
	if err := r.answer(http.StatusOK, r.halves[staticHalf]+r.halves[dynamicHalf]); err != nil {
		return behaviour.Error(err)
	}
	p.sent.Add(1)
	return behaviour.OK(nil)
}

// errEnded is the error of a request that was answered already: one half of its
// page was lost.
var errEnded = errors.New("the request has an answer already")

// answer sends an answer and closes the connection, once.
func (r *request) answer(status int, body string) error {
	if r.ended.Swap(true) {
		return errEnded
	}
	defer func() { _ = r.conn.Close() }() // the answer has been sent, or its error is returned
	if err := r.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	return err
}

// lost answers requests whose commands ended without an answer: a handler
// crashed, or the server stopped hard.
func (p *Server) lost(l stage.DeadLetter) {
	p.failed.Add(1)
	switch cmd := l.Command.(type) {
	case net.Conn:
		_ = cmd.Close() // the client notices
	case *request:
		_ = cmd.answer(http.StatusInternalServerError, "the page could not be made\n")
	case half:
		_ = cmd.of.answer(http.StatusInternalServerError, "the page could not be made\n")
	}
}
