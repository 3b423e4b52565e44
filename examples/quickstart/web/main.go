// Command web is the quickstart's workload: a small web server that tells
// where it runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(greet), ReadHeaderTimeout: 5 * time.Second}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-ctx.Done()
		log.Print("told to stop")
		// Requests that have begun are answered; the pod's grace period bounds them.
		_ = server.Shutdown(context.Background())
	}()
	log.Printf("%s serves on %s", os.Getenv("POD_NAME"), server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-drained
}

func greet(w http.ResponseWriter, r *http.Request) {
	log.Printf("%s %s from %s", r.Method, r.URL.Path, r.RemoteAddr)
	fmt.Fprintf(w, "hello from pod %s on node %s\n", os.Getenv("POD_NAME"), os.Getenv("NODE_NAME"))
}
