// Command grpc-go calls a service through kuberesolver and grpc-go, as it is told line by line; see ../README.md.
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
	// The same as in xtask/src/bench/grpc/caller.
	method   = "/bench.Echo/Call"
	payload  = 1024
	patience = 5 * time.Second
)

// policies are grpc-go's names for what we are told.
var policies = map[string]string{
	"turns": "round_robin",
	"load":  "least_request_experimental",
}

// told is how calls went.
type told struct {
	took   []time.Duration
	failed int
	why    string
}

func (t *told) add(took time.Duration, err error) {
	if err == nil {
		t.took = append(t.took, took)
		return
	}
	t.failed++
	if t.why == "" {
		t.why = status.Convert(err).String()
	}
}

func (t *told) join(other told) {
	t.took = append(t.took, other.took...)
	t.failed += other.failed
	if t.why == "" {
		t.why = other.why
	}
}

// at is the time that this part of the calls stayed within, in microseconds.
func (t *told) at(part float64) float64 {
	if len(t.took) == 0 {
		return 0
	}
	place := min(int(part*float64(len(t.took))), len(t.took)-1)
	return float64(t.took[place].Nanoseconds()) / 1e3
}

// clocks know how much time has gone by, on the wall and of all processors.
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

func (c clocks) tell(t told) {
	sort.Slice(t.took, func(i, j int) bool { return t.took[i] < t.took[j] })
	say(map[string]any{
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

func say(line map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

func call(ctx context.Context, channel *grpc.ClientConn, message *wrapperspb.BytesValue) error {
	return channel.Invoke(ctx, method, message, &wrapperspb.BytesValue{})
}

// burst calls without a pause, so many at a time, and tells of it.
func burst(channel *grpc.ClientConn, message *wrapperspb.BytesValue, inFlight int, duration time.Duration) {
	clocks, each := start(), make([]told, inFlight)
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
	var all told
	for _, it := range each {
		all.join(it)
	}
	clocks.tell(all)
}

// steady calls so often a second, whether earlier calls have ended or not, until it is told to end.
func steady(channel *grpc.ClientConn, message *wrapperspb.BytesValue, rate int, end <-chan struct{}) {
	clocks := start()
	var mutex sync.Mutex
	var all told
	var done sync.WaitGroup
	defer func() {
		done.Wait()
		clocks.tell(all)
	}()
	for number := 0; ; number++ {
		due := clocks.wall.Add(time.Duration(number) * time.Second / time.Duration(rate))
		select {
		case <-end:
			return
		case <-time.After(time.Until(due)):
		}
		done.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
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
		return fmt.Errorf("expected URL SERVICE POLICY")
	}
	policy, known := policies[os.Args[3]]
	if !known {
		return fmt.Errorf("%q is no policy", os.Args[3])
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
	// A channel of ours connects when it is made; this one does when it is told to.
	channel.Connect()
	message := &wrapperspb.BytesValue{Value: make([]byte, payload)}
	say(map[string]any{"ready": true})

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
			return fmt.Errorf("%q cannot be done now", line)
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
