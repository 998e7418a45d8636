// A work queue with one worker, with client-go.
package main

import (
	"fmt"

	"k8s.io/client-go/util/workqueue"
)

func sync(key string) error {
	fmt.Println("work on", key)
	return nil
}

func main() {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	queue.Add("default/web")
	queue.Add("default/web") // merged: the key already waits

	go func() {
		for {
			key, shutdown := queue.Get()
			if shutdown {
				return
			}
			if err := sync(key); err != nil {
				queue.AddRateLimited(key)
			} else {
				queue.Forget(key)
			}
			queue.Done(key)
		}
	}()
	queue.ShutDownWithDrain()
}
