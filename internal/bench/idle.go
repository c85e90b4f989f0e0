package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
)

// runIdle measures what a long run costs: a round each second, which is mostly
// waiting. Both contenders run at the same time.
func runIdle(ctx context.Context, o *options, emit func(*table) error) error {
	rounds := 30
	if o.quick {
		rounds = 5
	}
	w := chain{}.build(1)
	type runner struct {
		name string
		command
		out outcome
		err error
	}
	n := strconv.Itoa(rounds)
	runners := []*runner{
		{name: "whyslow trace -c " + n + " -i 1", command: command{memory: true, path: o.binary,
			args: []string{"trace", "-n", "-c", n, "-i", "1", "--samples", "0", "--no-mtu", w.dst.String()}}},
		{name: "mtr -r -c " + n + " -i 1", command: command{memory: true, path: "mtr", args: []string{"-n", "-r", "-c", n, "-i", "1", w.dst.String()}}},
	}
	err := inWorld(w, func(*netlab.Lab) error {
		var wg sync.WaitGroup
		for _, r := range runners {
			wg.Go(func() { r.out, r.err = execute(ctx, r.command, time.Duration(rounds)*time.Second+15*time.Second) })
		}
		wg.Wait()
		return nil
	})
	if err != nil {
		return err
	}
	t := &table{title: fmt.Sprintf("idle: %d rounds, one a second, 12 hops", rounds), columns: []string{"", "wall", "CPU time", "of one CPU", "peak memory"}}
	for i, r := range runners {
		if _, err := netlab.LookPath(r.path); err != nil {
			continue
		}
		if r.err != nil {
			return fmt.Errorf("%s: %w", r.name, r.err)
		}
		share := float64(r.out.usage.cpu) / float64(r.out.wall)
		t.add(r.name, bounded(r.out), millis(r.out.usage.cpu), fmt.Sprintf("%.2f %%", 100*share), megabytes(r.out.usage.rss))
		if i == 0 {
			t.promise(share <= 0.01 && r.out.ended, fmt.Sprintf("%.2f %%", 100*share), "at most 1 %% of one CPU")
		}
	}
	return emit(t)
}
