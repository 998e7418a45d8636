// Measures client-go's work queue and controller-runtime's priority queue; see ../README.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	producers = 8
	workers   = 8
)

type queue = workqueue.TypedRateLimitingInterface[string]

// The best of several rounds, of which each takes the time of what it measures only.
func best(rounds int, round func() time.Duration) time.Duration {
	best := time.Duration(1<<63 - 1)
	for range rounds {
		best = min(best, round())
	}
	return best
}

func keys(prefix string, count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/key-%d", prefix, i)
	}
	return keys
}

// Add, Get and Done of one key after the other, in one goroutine: a hundred keys, as client-go's BenchmarkQueue has them.
func alternating(q queue, count int) time.Duration {
	keys := keys("namespace", 100)
	start := time.Now()
	for i := range count {
		q.Add(keys[i%100])
		key, _ := q.Get()
		q.Done(key)
	}
	return time.Since(start)
}

// Eight producers add distinct keys, eight workers take them.
func crowd(q queue, each int) time.Duration {
	all := make([][]string, producers)
	for i := range all {
		all[i] = keys(fmt.Sprintf("namespace-%d", i), each)
	}
	var left sync.WaitGroup
	left.Add(producers * each)
	start := time.Now()
	for range workers {
		go func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
				left.Done()
			}
		}()
	}
	for _, keys := range all {
		go func() {
			for _, key := range keys {
				q.Add(key)
			}
		}()
	}
	left.Wait()
	return time.Since(start)
}

// Delays up to `longest`, of distinct keys.
func delayed(q queue, count int, longest time.Duration, take bool) time.Duration {
	keys := keys("namespace", count)
	delays := make([]time.Duration, count)
	for i := range delays {
		delays[i] = time.Duration(rand.Int63n(int64(longest)))
	}
	start := time.Now()
	for i, key := range keys {
		q.AddAfter(key, delays[i])
	}
	for i := 0; take && i < count; i++ {
		key, _ := q.Get()
		q.Done(key)
	}
	return time.Since(start)
}

func main() {
	rounds := flag.Int("rounds", 5, "how often each is measured")
	count := flag.Int("count", 1_000_000, "how many keys")
	each := flag.Int("each", 100_000, "how many keys each producer adds")
	flag.Parse()
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
		in := func(work func(queue) time.Duration) func() time.Duration {
			return func() time.Duration {
				q := maker.make()
				defer q.ShutDown()
				return work(q)
			}
		}
		per := func(count int, time time.Duration) float64 { return float64(time.Nanoseconds()) / float64(count) }
		line := map[string]any{
			"queue":          maker.name,
			"alternating_ns": per(*count, best(*rounds, in(func(q queue) time.Duration { return alternating(q, *count) }))),
			"crowd_ns":       per(producers**each, best(*rounds, in(func(q queue) time.Duration { return crowd(q, *each) }))),
			"add_after_ns":   per(*count, best(*rounds, in(func(q queue) time.Duration { return delayed(q, *count, 10*time.Minute, false) }))),
			"due_ns":         per(*count, best(*rounds, in(func(q queue) time.Duration { return delayed(q, *count, 10*time.Millisecond, true) }))),
		}
		if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
			os.Exit(1)
		}
	}
}
