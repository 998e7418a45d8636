// Measures client-go's work queue and controller-runtime's priority queue; see ../README.md.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// These values must match xtask/src/bench/workqueue.rs.
const (
	producers = 8
	workers   = 8
	// The number of keys of each producer.
	each = 100_000
	// The number of Add, Get and Done calls in one round.
	turns = 20_000
	// The number of delayed keys in one round.
	many = 500_000
)

type queue = workqueue.TypedRateLimitingInterface[string]

// spent is the cost of a round: wall-clock time, and CPU time of all threads.
type spent struct{ wall, cpu time.Duration }

func now() spent {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return spent{time.Duration(time.Now().UnixNano()), time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
}

func since(start spent) spent {
	end := now()
	return spent{end.wall - start.wall, end.cpu - start.cpu}
}

// best returns the best of several rounds, by wall-clock and by CPU time, in nanoseconds per key.
func best(rounds, count int, newQueue func() queue, round func(queue) spent) (float64, float64) {
	wall, cpu := math.Inf(1), math.Inf(1)
	for range rounds {
		q := newQueue()
		spent := round(q)
		q.ShutDown()
		wall = min(wall, float64(spent.wall)/float64(count))
		cpu = min(cpu, float64(spent.cpu)/float64(count))
	}
	return wall, cpu
}

func keys(prefix string, count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/key-%d", prefix, i)
	}
	return keys
}

// alternating calls Add, Get and Done for one key after the other, in one goroutine, with a hundred
// keys as in client-go's BenchmarkQueue.
func alternating(q queue, count int) spent {
	keys := keys("namespace", 100)
	start := now()
	for i := range count {
		q.Add(keys[i%100])
		key, _ := q.Get()
		q.Done(key)
	}
	return since(start)
}

// counter counts the keys of one worker. The padding keeps counters on separate cache lines.
type counter struct {
	atomic.Int64
	_ [120]byte
}

// crowd adds distinct keys from eight producers while eight workers take them.
func crowd(q queue, each int) spent {
	all := make([][]string, producers)
	for i := range all {
		all[i] = keys(fmt.Sprintf("namespace-%d", i), each)
	}
	var done [workers]counter
	start := now()
	for i := range workers {
		go func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
				done[i].Add(1)
			}
		}()
	}
	var adding sync.WaitGroup
	for _, keys := range all {
		adding.Go(func() {
			for _, key := range keys {
				q.Add(key)
			}
		})
	}
	adding.Wait()
	for {
		sum := int64(0)
		for i := range done {
			sum += done[i].Load()
		}
		if sum == producers*int64(each) {
			return since(start)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// delayed adds distinct keys with random delays up to longest.
func delayed(q queue, count int, longest time.Duration, take bool) spent {
	keys := keys("namespace", count)
	delays := make([]time.Duration, count)
	for i := range delays {
		delays[i] = time.Duration(rand.Int63n(int64(longest)))
	}
	start := now()
	for i, key := range keys {
		q.AddAfter(key, delays[i])
	}
	for i := 0; take && i < count; i++ {
		key, _ := q.Get()
		q.Done(key)
	}
	return since(start)
}

// Arguments: the number of rounds of quick measurements and of slow ones.
func main() {
	short, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	long, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	makers := []struct {
		name string
		make func() queue
	}{
		{"client-go 0.36", func() queue {
			return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		}},
		{"controller-runtime 0.24", func() queue { return priorityqueue.New[string]("") }},
	}
	for _, maker := range makers {
		alternatingNs, _ := best(short, turns, maker.make, func(q queue) spent { return alternating(q, turns) })
		crowdNs, crowdCPU := best(long, producers*each, maker.make, func(q queue) spent { return crowd(q, each) })
		addNs, _ := best(long, many, maker.make, func(q queue) spent { return delayed(q, many, 10*time.Minute, false) })
		dueNs, _ := best(long, many, maker.make, func(q queue) spent { return delayed(q, many, 10*time.Millisecond, true) })
		line := map[string]any{
			"queue":          maker.name,
			"alternating_ns": alternatingNs,
			"crowd_ns":       crowdNs,
			"crowd_cpu_ns":   crowdCPU,
			"add_after_ns":   addNs,
			"due_ns":         dueNs,
		}
		if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
			os.Exit(1)
		}
	}
}
