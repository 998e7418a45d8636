// Measures client-go's indexer, listeners and lister; see ../README.md.
package main

import (
	"context"
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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// These values must match xtask/src/bench/informer.
const (
	namespace = "default"
	// The number of objects that are updated in turn when notifications are measured.
	objects = 10_000
	// The number of pods in the label lookup, and the number of pods with the same label value.
	many  = 100_000
	group = 100
)

type beside struct {
	Pods    int     `json:"pods"`
	Readers int     `json:"readers"`
	Reads   float64 `json:"reads"`
	Writes  float64 `json:"writes"`
}

type notification struct {
	Handlers int     `json:"handlers"`
	Ns       float64 `json:"ns"`
}

type figures struct {
	Peer          string         `json:"peer"`
	Beside        []beside       `json:"beside"`
	Notifications []notification `json:"notifications"`
	LabelNs       float64        `json:"label_ns"`
}

func newPod(number int, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		// Twenty unordered characters, as in generated names.
		Name:            fmt.Sprintf("%016x%04x", uint64(number+1)*0x9e3779b97f4a7c15, number&0xffff),
		Namespace:       namespace,
		Labels:          map[string]string{"group": strconv.Itoa(number / group)},
		ResourceVersion: strconv.Itoa(version),
	}}
}

func newIndexer(count int) cache.Indexer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	for i := range count {
		must(indexer.Add(newPod(i, 1)))
	}
	return indexer
}

// besideReaders updates objects one by one while readers list all of them, as client-go's
// BenchmarkSharedIndexInformer does, but with the store alone, without the informer around it.
func besideReaders(indexer cache.Indexer, count, readers int, period time.Duration) beside {
	var stop atomic.Bool
	var reads atomic.Int64
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for !stop.Load() {
				must(cache.ListAllByNamespace(indexer, namespace, labels.Everything(), func(any) {}))
				reads.Add(1)
			}
		})
	}
	start, writes := time.Now(), 0
	for time.Since(start) < period {
		must(indexer.Update(newPod(rand.Intn(count), writes+2)))
		writes++
	}
	seconds := time.Since(start).Seconds()
	read := reads.Load()
	stop.Store(true)
	all.Wait()
	return beside{count, readers, float64(read) / seconds, float64(writes) / seconds}
}

// flood sends this many changes through an informer and returns the CPU time it took.
func flood(handlers, events int) time.Duration {
	watcher := watch.NewFakeWithChanSize(events, false)
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range objects {
		list.Items = append(list.Items, *newPod(i, 1))
	}
	informer := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watcher, nil
		},
	}, &corev1.Pod{}, cache.SharedIndexInformerOptions{
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	delivered := make([]struct {
		count atomic.Int64
		_     [120]byte
	}, handlers)
	stop := make(chan struct{})
	var registered []cache.ResourceEventHandlerRegistration
	for i := range handlers {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(any, any) { delivered[i].count.Add(1) },
		})
		must(err)
		registered = append(registered, registration)
	}
	ended := make(chan struct{})
	go func() { informer.Run(stop); close(ended) }()
	wait := func(done func() bool) {
		for !done() {
			time.Sleep(time.Millisecond)
		}
	}
	wait(informer.HasSynced)
	for _, registration := range registered {
		wait(registration.HasSynced)
	}
	changes := make([]*corev1.Pod, events)
	for i := range changes {
		changes[i] = newPod(i%objects, i+2)
	}
	start := cpu()
	for _, pod := range changes {
		watcher.Modify(pod)
	}
	last := strconv.Itoa(events + 1)
	wait(func() bool { return informer.LastSyncResourceVersion() == last })
	for i := range delivered {
		wait(func() bool { return delivered[i].count.Load() == int64(events) })
	}
	spent := cpu() - start
	close(stop)
	<-ended
	return spent
}

// notify returns the cost of one notification beyond that of an informer without handlers.
func notify(handlers, events, rounds int) notification {
	bare, with := math.Inf(1), math.Inf(1)
	for range rounds {
		bare = min(bare, float64(flood(0, events)))
		with = min(with, float64(flood(handlers, events)))
	}
	return notification{handlers, max(with-bare, 0) / float64(events*handlers)}
}

// label returns the time to find the pods of one group by their label, the best of several rounds.
func label(rounds int) float64 {
	indexer := newIndexer(many)
	selector := labels.SelectorFromSet(labels.Set{"group": "7"})
	best := math.Inf(1)
	for range rounds {
		found := 0
		start := time.Now()
		must(cache.ListAll(indexer, selector, func(any) { found++ }))
		best = min(best, float64(time.Since(start)))
		if found != group {
			panic(fmt.Sprintf("%d pods have the label", found))
		}
	}
	return best
}

func cpu() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Arguments: pod counts, reader counts, milliseconds for each pair of them, notifications, rounds.
func main() {
	var pods, readers []int
	must(json.Unmarshal([]byte(os.Args[1]), &pods))
	must(json.Unmarshal([]byte(os.Args[2]), &readers))
	numbers := make([]int, 3)
	for i := range numbers {
		number, err := strconv.Atoi(os.Args[3+i])
		must(err)
		numbers[i] = number
	}
	period, events, rounds := time.Duration(numbers[0])*time.Millisecond, numbers[1], numbers[2]
	result := figures{Peer: "client-go 0.36"}
	for _, count := range pods {
		indexer := newIndexer(count)
		for _, readers := range readers {
			result.Beside = append(result.Beside, besideReaders(indexer, count, readers, period))
		}
	}
	for _, handlers := range []int{1, 10, 100} {
		result.Notifications = append(result.Notifications, notify(handlers, events/min(handlers, 10), rounds))
	}
	result.LabelNs = label(10)
	must(json.NewEncoder(os.Stdout).Encode(result))
}
