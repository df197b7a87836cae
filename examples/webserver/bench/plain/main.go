// Plain is the server for comparison: net/http's file server in its simplest
// form.
//
//	plain ADDRESS DIRECTORY
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "plain: an address and a directory are needed")
		os.Exit(2)
	}
	server := &http.Server{
		Addr:              os.Args[1],
		Handler:           index(http.FileServer(http.Dir(os.Args[2]))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	fmt.Fprintln(os.Stderr, "plain:", server.ListenAndServe())
	os.Exit(1)
}

// index serves /index.html as a file; the file server would redirect the client
// to / first.
func index(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.html" {
			r.URL.Path = "/"
		}
		files.ServeHTTP(w, r)
	})
}
