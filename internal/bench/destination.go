package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/trace"
)

// wanderer is a world of a length, speed and silence drawn from a seed, whose
// routers and destination limit errors as Linux does.
func wanderer(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0x64657374))
	c := chain{hops: 2 + rng.IntN(19), limited: true, v6: rng.IntN(4) == 0,
		delay: time.Duration(200+rng.IntN(4000)) * time.Microsecond}
	silent := map[int]bool{}
	for range rng.IntN(3) {
		silent[1+rng.IntN(c.hops)] = true
	}
	slow := 1 + rng.IntN(c.hops)
	c.router = func(ttl int, r *simRouter) {
		r.Silent = silent[ttl]
		if ttl == slow {
			r.ControlDelay = 30 * time.Millisecond
		}
	}
	return c.build(seed)
}

// atOnce is how many traces over the model run at the same time. Each has a
// model of its own, and they mostly wait.
const atOnce = 64

// modelled counts how often the destination is found at its TTL over the model
// in memory. It returns one of the failures, if any.
func modelled(ctx context.Context, m netprobe.Method, runs int) (found int, wrong string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for seed := range uint64(runs) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			w := wanderer(seed)
			n := w.virtual()
			defer n.Close()
			res, err := trace.Run(ctx, trace.Options{Network: n, Dst: w.dst, Method: m})
			mu.Lock()
			defer mu.Unlock()
			if err == nil && res.HopCount != nil && *res.HopCount == w.ttl {
				found++
				return
			}
			wrong = fmt.Sprintf("seed %d: hop %s, is %d %v", seed, count(res.HopCount), w.ttl, orNothing(err))
		})
	}
	wg.Wait()
	return found, wrong
}

func count(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

func orNothing(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// finders are the programs of the second half of the table, and how often each
// runs.
func finders(o *options) (cs []contender, runs []int) {
	add := func(c contender, n int) {
		if o.quick {
			n = max(1, n/10)
		}
		cs, runs = append(cs, c), append(runs, n)
	}
	add(whyslow(o.binary, 1), 100)
	add(whyslow(o.binary, 3), 50)
	add(whyslow(o.binary, 1, "-U"), 50)
	add(whyslow(o.binary, 1, "-T"), 50)
	add(traceroute(1, "-U"), 50)
	add(traceroute(3, "-U"), 50)
	add(traceroute(3, "-I"), 50)
	add(traceroute(3, "-T"), 20)
	add(scamper("icmp-paris"), 10)
	add(tracepath(), 10)
	add(tcptraceroute(), 10)
	return cs, runs
}

func runDestination(ctx context.Context, o *options, emit func(*table) error) error {
	runs := 1000
	if o.quick {
		runs = 200
	}
	t := &table{title: "destination: found at its true hop number, every router limiting errors as Linux does", columns: []string{"", "runs", "found", "share"}}
	share := func(name string, found, runs int) {
		t.add(name, fmt.Sprint(runs), fmt.Sprint(found), fmt.Sprintf("%.1f %%", 100*float64(found)/float64(runs)))
	}
	for _, m := range []netprobe.Method{netprobe.Auto, netprobe.ICMP, netprobe.UDP, netprobe.TCP} {
		found, wrong := modelled(ctx, m, runs)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		name := fmt.Sprintf("the library over the model, %v, 2 to 20 hops", m)
		share(name, found, runs)
		t.promise(found == runs, fmt.Sprintf("%d of %d", found, runs), "%s: always found", name)
		if wrong != "" {
			t.note("%v: %s", m, wrong)
		}
	}
	cs, times := finders(o)
	for i, c := range cs {
		if len(available(cs[i:i+1])) == 0 {
			continue
		}
		found, wrong, err := inLab(ctx, o, c, times[i])
		if err != nil {
			return err
		}
		name := c.name + ", in the lab, 12 hops"
		share(name, found, times[i])
		if c.ours {
			t.promise(found == times[i], fmt.Sprintf("%d of %d", found, times[i]), "%s: always found", name)
		}
		if wrong != "" {
			t.note("%s: %s", c.name, wrong)
		}
	}
	return emit(t)
}

// inLab counts how often a program finds the destination in real time.
func inLab(ctx context.Context, o *options, c contender, runs int) (found int, wrong string, err error) {
	for i := range runs {
		w := chain{limited: true, delay: 500 * time.Microsecond}.build(uint64(i))
		run, err := c.trace(ctx, w, o)
		if err != nil {
			return found, wrong, fmt.Errorf("%s: %w", c.name, err)
		}
		at := run.path.find(w.dst)
		if len(at) == 1 && at[0] == w.ttl {
			found++
			continue
		}
		wrong = fmt.Sprintf("the destination at %v, is at %d", at, w.ttl)
		if o.verbose {
			fmt.Fprintf(os.Stderr, "destination: %s: %s\n", c.name, wrong)
		}
	}
	return found, wrong, nil
}
