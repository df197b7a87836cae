package stagehttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

var (
	errEmptyBody = errors.New("the body is empty")
	errMoreJSON  = errors.New("the body has more than one JSON value")
)

// decodeJSON decodes the body of a request. It must have a Content-Type of
// JSON: a page of another site may have a browser send a body of no type, or of
// the types of forms, with the user's cookies, but must ask the server before
// it sends JSON.
func decodeJSON[In any](r *http.Request) (in In, err error) {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return in, fmt.Errorf("%w: the request has no Content-Type: send application/json", ErrContentType)
	}
	kind, _, err := mime.ParseMediaType(given)
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return in, fmt.Errorf("%w %s: send application/json", ErrContentType, quote(given))
	}
	from := json.NewDecoder(r.Body)
	if err := from.Decode(&in); err != nil {
		if errors.Is(err, io.EOF) {
			err = errEmptyBody
		}
		return in, err
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return in, tooLarge
		}
		return in, errMoreJSON
	}
	return in, nil
}
