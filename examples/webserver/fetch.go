package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/golda-dev/golda/behaviour"
)

// lookup is the stage that answers from the cache, if it can.
type lookup struct {
	*server
	known *port // requests that are answered
	file  *port // to be fetched
	page  *port // to be computed
}

// HandleCommand looks a path up.
func (l lookup) HandleCommand(_ context.Context, c *conn) behaviour.Outcome {
	if c.path == workPath {
		return behaviour.Forward(l.page, c)
	}
	f, fresh := l.cache.get(c.path, l.now())
	if !fresh {
		return behaviour.Forward(l.file, c)
	}
	c.reply(f.answer(c.req))
	return behaviour.Forward(l.known, c)
}

// fetch is the stage that reads from the disk.
type fetch struct {
	*server
	next *port
}

// HandleCommand fetches a file, into the cache if it is small.
func (f fetch) HandleCommand(_ context.Context, c *conn) behaviour.Outcome {
	got, err := find(f.site, c.path)
	switch {
	case err != nil:
		f.cache.drop(c.path)
		c.reply(excuse(err))
	case got.slash:
		c.reply(moved(c.path+"/", c.req.URL.RawQuery))
	default:
		c.reply(f.serve(c, got))
	}
	return behaviour.Forward(f.next, c)
}

// serve answers with a file that was found.
func (f fetch) serve(c *conn, got found) answer {
	body, random := got.file.(bodyFile)
	if got.info.Size() > f.limits.cached && random {
		a := newFile(got.name, got.info, nil, body).answer(c.req)
		if a.text == nil && a.left > 0 {
			a.file = body
			return a
		}
		_ = body.Close()
		return a
	}
	defer got.file.Close() //nolint:errcheck // it was only read
	known := f.cache.last(c.path)
	if known == nil || !known.same(got.info) {
		data, err := got.read()
		if err != nil {
			return excuse(err)
		}
		known = newFile(got.name, got.info, data, bytes.NewReader(data))
		f.cache.put(c.path, known, f.now())
	}
	return known.answer(c.req)
}

// excuse answers for a file that cannot be served.
func excuse(err error) answer {
	switch {
	case errors.Is(err, errNone) || absent(err):
		return text(http.StatusNotFound, "there is nothing here\n")
	case errors.Is(err, fs.ErrPermission):
		return text(http.StatusForbidden, "this is not for you\n")
	default:
		return text(http.StatusInternalServerError, "the file could not be read\n")
	}
}

// moved redirects a client to a path. A clean path starts with one slash, so it
// leads to no other host.
func moved(p, query string) answer {
	a := text(http.StatusMovedPermanently, "it is at "+p+"\n")
	a.extra = "Location: " + (&url.URL{Path: p, RawQuery: query}).String() + "\r\n"
	return a
}
