package main

import (
	"context"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/trace"
)

// traceInProcess runs our library in the lab of a world.
func (c contender) traceInProcess(ctx context.Context, w *world) (tracing, error) {
	var t tracing
	err := inWorld(w, func(lab *netlab.Lab) error {
		before, err := sent(lab)
		if err != nil {
			return err
		}
		start := time.Now()
		res, err := trace.Run(ctx, c.library(w))
		t.wall, t.ended = time.Since(start), true
		if err != nil {
			return err
		}
		after, err := sent(lab)
		t.packets, t.path, t.lateness = int(after-before), pathOf(res), lab.Traffic().Late
		t.wrong = w.judge(t.path)
		return err
	})
	return t, err
}
