package httpcheck

import (
	"context"
	"fmt"
	"time"
)

// Idle fetches the final URL over a fresh connection that was first left idle
// for d after it stood. A server that accepts late has accepted by then; one
// that looks its visitor up has not begun. The time left idle is in no phase
// and not in the total.
func (c *Client) Idle(ctx context.Context, d time.Duration) (Control, error) {
	ctl := Control{Name: "idle", Why: fmt.Sprintf("whether the server begins its delay with the connection or with the request, left idle for %s", ms(d))}
	t := c.target()
	g := c.group()
	g.idle = d
	defer g.close()
	var err error
	ctl.Exchange, _, err = g.exchange(ctx, c.request(t.url, t.method))
	return ctl, err
}

// leaveIdle waits for d and returns the end of the wait. The exchange's clock
// is moved by it.
func (k *conn) leaveIdle(ctx context.Context, d time.Duration, st *stamp) (time.Time, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	st.start = st.start.Add(d)
	now := time.Now()
	k.meter.lastRead = now
	k.meter.moved(now)
	return now, nil
}
