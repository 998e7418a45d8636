// Command grpc-go-server is a gRPC server with all of grpc-go's defaults; see ../README.md.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// countingListener counts the connections it accepts.
type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (c *countingListener) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return connection, err
}

func printJSON(line map[string]any) error {
	return json.NewEncoder(os.Stdout).Encode(line)
}

func run() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	counted := &countingListener{Listener: listener}
	server := grpc.NewServer()
	// Health.Watch is a stream that sends one message, and another only when the health changes, which
	// it never does.
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(counted) }()
	if err := printJSON(map[string]any{"port": listener.Addr().(*net.TCPAddr).Port}); err != nil {
		return err
	}
	// Runs until standard input is closed.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := printJSON(map[string]any{"connections": counted.accepted.Load()}); err != nil {
		return err
	}
	server.Stop()
	return <-failed
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
