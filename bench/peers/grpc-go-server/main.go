// Command grpc-go-server is a gRPC server with all of grpc-go's defaults, to call it as it stands; see ../README.md.
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

// counting counts the connections that it accepts.
type counting struct {
	net.Listener
	accepted atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return connection, err
}

func say(line map[string]any) error {
	return json.NewEncoder(os.Stdout).Encode(line)
}

func run() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	counted := &counting{Listener: listener}
	server := grpc.NewServer()
	// Watch of this service is a stream that says something once, and then only when the health changes, which it never does.
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(counted) }()
	if err := say(map[string]any{"port": listener.Addr().(*net.TCPAddr).Port}); err != nil {
		return err
	}
	// It ends with its input.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := say(map[string]any{"connections": counted.accepted.Load()}); err != nil {
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
