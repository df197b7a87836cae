// Plain is what the web server is measured against: net/http's file server, as anybody would write it.
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

// index lets /index.html be the file, where the file server would send the client to / first.
func index(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.html" {
			r.URL.Path = "/"
		}
		files.ServeHTTP(w, r)
	})
}
