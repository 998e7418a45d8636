// Command grpc-go calls a service through kuberesolver and grpc-go, controlled by lines on standard
// input; see ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/sercand/kuberesolver/v6"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// These values must match xtask/src/bench/grpc/caller.
	method  = "/bench.Echo/Call"
	payload = 1024
	timeout = 5 * time.Second
)

// policies maps the POLICY argument to the name of grpc-go's balancer.
var policies = map[string]string{
	"turns": "round_robin",
	"load":  "least_request_experimental",
}

// outcome holds the results of calls.
type outcome struct {
	took   []time.Duration
	failed int
	why    string
}

func (t *outcome) add(took time.Duration, err error) {
	if err == nil {
		t.took = append(t.took, took)
		return
	}
	t.failed++
	if t.why == "" {
		t.why = status.Convert(err).String()
	}
}

func (t *outcome) join(other outcome) {
	t.took = append(t.took, other.took...)
	t.failed += other.failed
	if t.why == "" {
		t.why = other.why
	}
}

// at returns the given quantile of the latencies, in microseconds.
func (t *outcome) at(part float64) float64 {
	if len(t.took) == 0 {
		return 0
	}
	index := min(int(part*float64(len(t.took))), len(t.took)-1)
	return float64(t.took[index].Nanoseconds()) / 1e3
}

// clocks holds the start of a measurement, as wall-clock time and CPU time of the process.
type clocks struct {
	wall time.Time
	cpu  time.Duration
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func start() clocks { return clocks{time.Now(), cpu()} }

func (c clocks) report(t outcome) {
	sort.Slice(t.took, func(i, j int) bool { return t.took[i] < t.took[j] })
	printJSON(map[string]any{
		"calls":       len(t.took) + t.failed,
		"failed":      t.failed,
		"seconds":     time.Since(c.wall).Seconds(),
		"cpu_seconds": (cpu() - c.cpu).Seconds(),
		"p50_us":      t.at(0.5),
		"p99_us":      t.at(0.99),
		"p999_us":     t.at(0.999),
		"why":         t.why,
	})
}

func printJSON(line map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

func call(ctx context.Context, channel *grpc.ClientConn, message *wrapperspb.BytesValue) error {
	return channel.Invoke(ctx, method, message, &wrapperspb.BytesValue{})
}

// burst keeps inFlight calls in flight for the duration and reports the outcome.
func burst(channel *grpc.ClientConn, message *wrapperspb.BytesValue, inFlight int, duration time.Duration) {
	clocks, each := start(), make([]outcome, inFlight)
	end := clocks.wall.Add(duration)
	var done sync.WaitGroup
	for number := range each {
		done.Go(func() {
			for now := time.Now(); now.Before(end); {
				err := call(context.Background(), channel, message)
				after := time.Now()
				each[number].add(after.Sub(now), err)
				now = after
			}
		})
	}
	done.Wait()
	var all outcome
	for _, it := range each {
		all.join(it)
	}
	clocks.report(all)
}

// steady starts calls at a fixed rate, whether earlier calls have ended or not, until end is
// closed.
func steady(channel *grpc.ClientConn, message *wrapperspb.BytesValue, rate int, end <-chan struct{}) {
	clocks := start()
	var mutex sync.Mutex
	var all outcome
	var done sync.WaitGroup
	defer func() {
		done.Wait()
		clocks.report(all)
	}()
	for number := 0; ; number++ {
		due := clocks.wall.Add(time.Duration(number) * time.Second / time.Duration(rate))
		select {
		case <-end:
			return
		case <-time.After(time.Until(due)):
		}
		done.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			err := call(ctx, channel, message)
			took := time.Since(due)
			mutex.Lock()
			defer mutex.Unlock()
			all.add(took, err)
		})
	}
}

func run() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: grpc-go URL SERVICE POLICY")
	}
	policy, known := policies[os.Args[3]]
	if !known {
		return fmt.Errorf("unknown policy %q", os.Args[3])
	}
	resolver.Register(kuberesolver.NewBuilder(kuberesolver.NewInsecureK8sClient(os.Args[1]), "kubernetes"))
	channel, err := grpc.NewClient(
		fmt.Sprintf("kubernetes:///%s.default:grpc", os.Args[2]),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, policy)),
	)
	if err != nil {
		return err
	}
	defer channel.Close()
	// Our channel connects when it is built; grpc-go's needs this call.
	channel.Connect()
	message := &wrapperspb.BytesValue{Value: make([]byte, payload)}
	printJSON(map[string]any{"ready": true})

	var end chan struct{}
	var ended sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var inFlight, milliseconds, rate int
		line := lines.Text()
		if count, _ := fmt.Sscanf(line, "burst %d %d", &inFlight, &milliseconds); count == 2 {
			burst(channel, message, inFlight, time.Duration(milliseconds)*time.Millisecond)
		} else if count, _ := fmt.Sscanf(line, "begin %d", &rate); count == 1 && end == nil {
			stop := make(chan struct{})
			end = stop
			ended.Go(func() { steady(channel, message, rate, stop) })
		} else if line == "end" && end != nil {
			close(end)
			ended.Wait()
			end = nil
		} else {
			return fmt.Errorf("unexpected command %q", line)
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
