// Package queue runs jobs at a constant rate, from a queue that is bounded.
//
// What comes in bursts and must not arrive so, mails or calls of somebody's API, is put into a [Queue]; a limiter says when each
// job has its turn. A leaky bucket spaces them evenly, and in a shared store it does so for all replicas together:
//
//	limit, err := tidegate.ParseLimit("50/s leaky-bucket queue 100")
//	mails, err := tidegate.New(store, limit, nil)
//	q, err := queue.New(mails, send, &queue.Config[Mail]{Size: 1000})
//	…
//	err = q.Put(ctx, mail)            // at once: queue.ErrFull when a thousand wait
//	…
//	left, err := q.Shutdown(ctx)      // runs what waits, or returns what had no turn in time
//
// No job is lost unsaid: each one that Put accepts is run, or is told to Dropped, or is returned by Shutdown.
//
// Requests that wait for a turn in a handler are not jobs: that queue is the middleware's.
//
// It imports the root package and the standard library.
package queue
