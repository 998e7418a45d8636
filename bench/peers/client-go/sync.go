package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	// A process is idle if it uses at most this much processor time in this interval.
	rest = 500 * time.Millisecond
	idle = 5 * time.Millisecond
	// The bytes for each object without which a list is not complete.
	leastSize = 500
)

// syncPods measures a shared informer of pods; see ../README.md.
func syncPods(arguments []string) error {
	flags := flag.NewFlagSet("sync", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig of the server")
	namespace := flags.String("namespace", "", "the namespace of the pods")
	updates := flags.Int64("updates", 0, "the number of changes after the sync")
	heap := flags.Bool("heap", false, "measure the heap of the synced cache, and nothing else")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf
	transport := &relisting{}
	if !*heap {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { transport.next = next; return transport })
	}
	before := liveBytes(*heap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	began, used := time.Now(), processorTime()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(*namespace))
	pods := factory.Core().V1().Pods().Informer()

	var events atomic.Int64
	reached := make(chan struct{})
	change := func() {
		if events.Add(1) == *updates {
			close(reached)
		}
	}
	if _, err := pods.AddEventHandler(onChange(change)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory.StartWithContext(ctx)
	<-pods.HasSyncedChecker().Done()
	report := map[string]any{}
	if !*heap {
		report["sync_s"] = time.Since(began).Seconds()
		report["cpu_s"] = (processorTime() - used).Seconds()
	}
	objects := len(pods.GetStore().ListKeys())
	report["objects"] = objects
	// What is left of the sync, such as the first calls of the handler, is not a cost of changes.
	untilIdle()
	if !*heap {
		report["rss_peak_mb"], report["rss_mb"] = megabytes("VmHWM:"), megabytes("VmRSS:")
	}
	used = processorTime()
	if err := printJSON(map[string]any{"synced": objects}); err != nil {
		return err
	}
	if *heap {
		report["live_bytes"] = liveBytes(true) - before
		runtime.KeepAlive(factory)
		return printJSON(report)
	}

	if *updates > 0 {
		<-reached
		report["cpu_us_per_event"] = (processorTime() - used).Seconds() * 1e6 / float64(events.Load())
	}

	untilIdle()
	used = processorTime()
	transport.relist()
	for transport.received.Load() < int64(objects)*leastSize {
		time.Sleep(10 * time.Millisecond)
	}
	untilIdle()
	report["relist_cpu_s"] = (processorTime() - used).Seconds()
	return printJSON(report)
}

// liveBytes returns the bytes of the heap that are in use after a garbage collection.
func liveBytes(wanted bool) int64 {
	if !wanted {
		return 0
	}
	// What finalizers release is free after the second one.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func untilIdle() {
	for {
		used := processorTime()
		time.Sleep(rest)
		if processorTime()-used < idle {
			return
		}
	}
}

func megabytes(field string) any {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, field); found {
			if kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64); err == nil {
				return kibibytes * 1024 / 1e6
			}
		}
	}
	return nil
}

// relisting ends the current watch on demand and answers its resumption as a server that has
// forgotten the version, so that the reflector lists again.
type relisting struct {
	next http.RoundTripper
	// True until the resumption is answered.
	expire atomic.Bool
	// The bytes of lists since then.
	received atomic.Int64
	mutex    sync.Mutex
	current  *body
}

func (r *relisting) relist() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.received.Store(0)
	r.expire.Store(true)
	if r.current != nil {
		r.current.ended.Store(true)
		r.current.Close()
	}
}

func (r *relisting) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	watch := query.Get("watch") != ""
	if watch && query.Get("sendInitialEvents") != "true" && r.expire.CompareAndSwap(true, false) {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}`
		return &http.Response{
			Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:  http.Header{"Content-Type": {"application/json"}},
			Body:    io.NopCloser(bytes.NewBufferString(status)),
			Request: request,
		}, nil
	}
	response, err := r.next.RoundTrip(request)
	if err != nil || strings.HasSuffix(request.URL.Path, "/version") {
		return response, err
	}
	wrapped := &body{ReadCloser: response.Body, received: &r.received}
	response.Body = wrapped
	if watch {
		r.mutex.Lock()
		r.current = wrapped
		r.mutex.Unlock()
	}
	return response, nil
}

// body counts the bytes that are read, and ends like a complete response when it is closed early.
type body struct {
	io.ReadCloser
	received *atomic.Int64
	ended    atomic.Bool
}

func (b *body) Read(buffer []byte) (int, error) {
	count, err := b.ReadCloser.Read(buffer)
	b.received.Add(int64(count))
	if err != nil && !errors.Is(err, io.EOF) && b.ended.Load() {
		err = io.EOF
	}
	return count, err
}

func mustSync(arguments []string) {
	if err := syncPods(arguments); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}
