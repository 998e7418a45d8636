// A cache of pods with an index, with client-go.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", clientcmd.RecommendedHomeFile)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	pods := factory.Core().V1().Pods().Informer()
	err = pods.AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			fmt.Println(object.(*corev1.Pod).Name, "was deleted")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	onNode, err := pods.GetIndexer().ByIndex("node", "node-1")
	fmt.Println(len(onNode), "pods", err)
	factory.Shutdown()
}
