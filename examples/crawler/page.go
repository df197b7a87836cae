package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// page is a page that was fetched.
type page struct {
	address *url.URL
	body    string
}

// getter returns the function that fetches a page.
func getter(client *http.Client) func(ctx context.Context, address *url.URL) (page, error) {
	return func(ctx context.Context, address *url.URL) (page, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
		if err != nil {
			return page{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return page{}, err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return page{}, err
		}
		if response.StatusCode != http.StatusOK {
			return page{}, &statusError{response.StatusCode}
		}
		return page{address, string(body)}, nil
	}
}

// links returns the addresses of the links of the page. An invalid link leads
// nowhere.
func (p page) links() (all []*url.URL) {
	tokens := html.NewTokenizer(strings.NewReader(p.body))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		if kind != html.StartTagToken {
			continue
		}
		if target, ok := href(tokens); ok {
			if address, err := p.address.Parse(target); err == nil {
				all = append(all, address)
			}
		}
	}
	return all
}

// href returns the address in an <a> tag.
func href(tokens *html.Tokenizer) (address string, ok bool) {
	name, more := tokens.TagName()
	if string(name) != "a" {
		return "", false
	}
	for more {
		var key, value []byte
		if key, value, more = tokens.TagAttr(); string(key) == "href" {
			return string(value), true
		}
	}
	return "", false
}

// statusError is an answer other than 200.
type statusError struct{ status int }

// Error returns the status in words.
func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s", e.status, http.StatusText(e.status))
}
