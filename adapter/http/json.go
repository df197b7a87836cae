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

// decodeJSON decodes the body of a request. A request without a Content-Type is taken for JSON.
func decodeJSON[In any](r *http.Request) (in In, err error) {
	if given := r.Header.Get("Content-Type"); given != "" {
		kind, _, err := mime.ParseMediaType(given)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return in, fmt.Errorf("%w %q: send application/json", ErrContentType, given)
		}
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
