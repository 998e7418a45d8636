// Follows the ConfigMaps of a namespace with client-go's shared informer and prints the final
// state. With the first argument "sync", measures an informer of pods instead; see ../README.md.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sort"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The cache counts as final when it has not changed for this long.
const settled = time.Second

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sync" {
		mustSync(os.Args[2:])
		return
	}
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of the server")
	namespace := flag.String("namespace", "", "the namespace to follow")
	until := flag.String("until", "", "the ConfigMap that marks the end")
	contentType := flag.String("content-type", "application/json", "the media type of requests and responses")
	flag.Parse()
	if err := follow(*kubeconfig, *namespace, *until, *contentType); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func follow(kubeconfig, namespace, until, contentType string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	var lists atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next, &lists} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps := factory.Core().V1().ConfigMaps()

	var events, lastChange atomic.Int64
	change := func() { events.Add(1); lastChange.Store(time.Now().UnixNano()) }
	if _, err := maps.Informer().AddEventHandler(onChange(change)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), maps.Informer().HasSynced) {
		return fmt.Errorf("the cache did not sync")
	}
	lister := maps.Lister().ConfigMaps(namespace)
	if err := printJSON(map[string]any{"synced": len(state(lister))}); err != nil {
		return err
	}
	for {
		_, err := lister.Get(until)
		if err == nil && time.Now().UnixNano()-lastChange.Load() > settled.Nanoseconds() {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	objects := state(lister)
	return printJSON(map[string]any{
		"peer": "client-go 0.36", "objects": len(objects), "digest": digest(objects),
		"events": events.Load(), "lists": lists.Load(),
	})
}

// onChange calls a function for every change after the first list.
func onChange(change func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				change()
			}
		},
		UpdateFunc: func(_, _ any) { change() },
		DeleteFunc: func(any) { change() },
	}
}

func state(lister corelisters.ConfigMapNamespaceLister) []*corev1.ConfigMap {
	objects, _ := lister.List(labels.Everything()) // cannot fail: it reads the cache
	sort.Slice(objects, func(i, j int) bool { return objects[i].Name < objects[j].Name })
	return objects
}

func digest(objects []*corev1.ConfigMap) string {
	sum := sha256.New()
	for _, it := range objects {
		fmt.Fprintf(sum, "%s %s\n", it.Name, it.ResourceVersion)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func printJSON(line map[string]any) error { return json.NewEncoder(os.Stdout).Encode(line) }

// counter counts the requests for the whole state: plain lists, and watches with initial events.
type counter struct {
	next  http.RoundTripper
	lists *atomic.Int64
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
		c.lists.Add(1)
	}
	return c.next.RoundTrip(request)
}
