// Command etcdload does to etcd what host/cmd/bench does to Berth, through
// etcd's own client, and prints what it measured as JSON: creates a second, how
// late watchers are, how long a range takes.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// load is where the load goes, and what was measured.
type load struct {
	endpoint string
	tls      *tls.Config
	clients  int
	body     string
	result   map[string]float64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "etcdload:", err)
		os.Exit(1)
	}
}

func run() error {
	l := load{result: map[string]float64{}}
	flag.StringVar(&l.endpoint, "endpoint", "", "etcd's URL")
	ca := flag.String("ca", "", "certificate that etcd's is signed by")
	body := flag.String("body", "", "file with the value that is written")
	do := flag.String("do", "", "creates, watch, list or fill, separated by commas")
	lasts := flag.Duration("for", 6*time.Second, "how long creates go on")
	events := flag.Int("events", 80, "how many events watchers are sent, ten a second")
	n := flag.Int("n", 10_000, "how many keys list and fill write")
	flag.IntVar(&l.clients, "clients", 64, "clients, each with a connection of its own")
	flag.Parse()
	value, err := os.ReadFile(*body)
	if err != nil {
		return err
	}
	l.body = string(value)
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	l.tls = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	ctx := context.Background()
	for what := range strings.SplitSeq(*do, ",") {
		switch what {
		case "creates":
			err = l.creates(ctx, *lasts)
		case "watch":
			err = l.watch(ctx, *events)
		case "list":
			err = l.list(ctx, *n)
		case "fill":
			err = l.fill(ctx, "/fill/", *n)
		default:
			err = fmt.Errorf("-do %q is not known", what)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(l.result)
}

func (l *load) connect(n int) ([]*clientv3.Client, error) {
	all := make([]*clientv3.Client, n)
	for i := range all {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{l.endpoint}, TLS: l.tls, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		all[i] = c
	}
	return all, nil
}

// create writes a key that is not there, as an API server does.
func (l *load) create(ctx context.Context, c *clientv3.Client, key string) error {
	_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, l.body)).Commit()
	return err
}

func (l *load) creates(ctx context.Context, lasts time.Duration) error {
	clients, err := l.connect(l.clients)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	took := make([][]time.Duration, len(clients))
	for i, c := range clients { // the handshakes do not count
		if err := l.create(ctx, c, fmt.Sprint("/warm/", i)); err != nil {
			return err
		}
	}
	began := time.Now()
	for i, c := range clients {
		group.Go(func() {
			for n := 0; time.Since(began) < lasts; n++ {
				start := time.Now()
				if err := l.create(ctx, c, fmt.Sprintf("/creates/%d-%d", i, n)); err != nil {
					failed.Store(&err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	all := slices.Concat(took...)
	l.result["creates/s"] = float64(len(all)) / time.Since(began).Seconds()
	l.result["create p99, ms"] = at(all, 0.99)
	return nil
}

const watchers, watchConnections = 1000, 20

func (l *load) watch(ctx context.Context, events int) error {
	clients, err := l.connect(watchConnections)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make([]atomic.Int64, events)
	late := make([][]time.Duration, watchers)
	var group sync.WaitGroup
	for i := range watchers {
		told := clients[i%len(clients)].Watch(ctx, "/watched/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-told
		group.Go(func() {
			for len(late[i]) < events {
				r, ok := <-told
				if !ok {
					return
				}
				now := time.Now().UnixNano()
				for range r.Events {
					late[i] = append(late[i], time.Duration(now-sent[len(late[i])].Load()))
				}
			}
		})
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := range events {
		<-ticker.C
		sent[n].Store(time.Now().UnixNano())
		if err := l.create(ctx, clients[0], fmt.Sprint("/watched/", n)); err != nil {
			return err
		}
	}
	stop := time.AfterFunc(30*time.Second, cancel)
	group.Wait()
	stop.Stop()
	l.result["watch p99, ms"] = at(slices.Concat(late...), 0.99)
	return nil
}

func (l *load) list(ctx context.Context, n int) error {
	if err := l.fill(ctx, "/list/", n); err != nil {
		return err
	}
	clients, err := l.connect(1)
	if err != nil {
		return err
	}
	var all []time.Duration
	for range 20 {
		start := time.Now()
		r, err := clients[0].Get(ctx, "/list/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		if len(r.Kvs) != n {
			return fmt.Errorf("a range of %d keys, want %d", len(r.Kvs), n)
		}
		all = append(all, time.Since(start))
	}
	l.result["list, ms"] = at(all, 0.5)
	return nil
}

// fill writes n keys, a hundred in one transaction.
func (l *load) fill(ctx context.Context, prefix string, n int) error {
	clients, err := l.connect(8)
	if err != nil {
		return err
	}
	const atOnce = 100
	var group sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for _, c := range clients {
		group.Go(func() {
			for {
				from := int(next.Add(atOnce)) - atOnce
				if from >= n {
					return
				}
				var puts []clientv3.Op
				for i := from; i < min(from+atOnce, n); i++ {
					puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s%08d", prefix, i), l.body))
				}
				if _, err := c.Txn(ctx).Then(puts...).Commit(); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// at is the nearest rank, in milliseconds.
func at(all []time.Duration, share float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	rank := int(math.Ceil(share * float64(len(all))))
	return float64(all[min(max(rank, 1), len(all))-1]) / float64(time.Millisecond)
}
