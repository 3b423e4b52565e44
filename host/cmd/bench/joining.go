package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joinWithin is the aim for the nodes that join while pods are placed. They come
// evenly over nine tenths of it, so that pods are placed beside them all the while.
const joinWithin = 10 * time.Second

// joinClients is how many clients create them.
const joinClients = 16

// joining is how long nodes took to join.
type joining struct {
	took time.Duration
	err  error
}

// joins has the workload's further nodes come, and tells when the API has answered
// the last one.
func (r *rig) joins(ctx context.Context, w workload) <-chan joining {
	ended := make(chan joining, 1)
	if w.joining == 0 {
		ended <- joining{}
		return ended
	}
	began, pace := time.Now(), joinWithin*9/10/time.Duration(w.joining)
	go func() {
		err := each(ctx, joinClients, w.joining, func(ctx context.Context, i int) error {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(i) * pace))):
			case <-ctx.Done():
				return ctx.Err()
			}
			_, err := r.client.CoreV1().Nodes().Create(ctx, w.node(w.nodes+i), metav1.CreateOptions{})
			return err
		})
		ended <- joining{time.Since(began), err}
	}()
	return ended
}
