package httpcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

const (
	// attemptDelay is the time one address has before the next is tried beside
	// it, RFC 8305 §5: 250 ms.
	attemptDelay = 250 * time.Millisecond
	// maxAddrs bounds the addresses of one host that are tried.
	maxAddrs = 16
	// resolveTimeout bounds a Resolver. A glibc stub with two dead servers
	// needs 20 s for A alone.
	resolveTimeout = 30 * time.Second
)

// resolve returns the addresses of u's host in the order they are tried, and
// what finding them took; unmeasured for a literal address and for a host
// already known.
func (c *Client) resolve(ctx context.Context, u *url.URL, f Family) ([]netip.Addr, millis.Value, error) {
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		addrs, err := order([]netip.Addr{a}, f)
		return addrs, millis.Value{}, err
	}
	c.mu.Lock()
	known, ok := c.hosts[host]
	first := host == c.url.Hostname() && len(c.opts.Addrs) > 0 && !c.resolved
	if first {
		c.resolved = true
	}
	c.mu.Unlock()
	var took millis.Value
	switch {
	case ok && first:
		took = c.opts.ResolveTime
	case !ok:
		var err error
		begin := time.Now()
		known.addrs, err = c.lookup(ctx, host)
		if err != nil { // not remembered: the next sample may fare better
			return nil, millis.Value{}, err
		}
		took = millis.Of(time.Since(begin))
		c.mu.Lock()
		c.hosts[host] = known
		c.mu.Unlock()
	}
	addrs, err := order(known.addrs, f)
	return addrs, took, err
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := c.opts.Resolver(ctx, host)
	if err != nil {
		if k := kindOf(err); k == "other" {
			err = &kindError{kind: "dns", err: err}
		}
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &kindError{kind: "dns", err: fmt.Errorf("%s has no address", bounded(host, 253))}
	}
	return addrs, nil
}

// order puts addresses into the order of RFC 8305 §4: families in turn, IPv6
// first, each family's own order kept.
func order(addrs []netip.Addr, f Family) ([]netip.Addr, error) {
	var six, four []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		switch {
		case !a.IsValid() || slices.Contains(six, a) || slices.Contains(four, a):
		case a.Is4() && f != IPv6:
			four = append(four, a)
		case a.Is6() && f != IPv4:
			six = append(six, a)
		}
	}
	out := make([]netip.Addr, 0, len(six)+len(four))
	for i := range max(len(six), len(four)) {
		if i < len(six) {
			out = append(out, six[i])
		}
		if i < len(four) {
			out = append(out, four[i])
		}
	}
	if len(out) == 0 {
		return nil, &kindError{kind: "dns", err: fmt.Errorf("the host has no IPv%d address", f)}
	}
	return out[:min(len(out), maxAddrs)], nil
}

// attempt is the outcome of dialling one address.
type attempt struct {
	index int
	conn  net.Conn
	err   error
	end   time.Time
}

// dial connects to the first address that answers, RFC 8305 §5: each address
// gets a head start of attemptDelay, or less if it fails earlier. It returns
// when the connection stood, and a row per address that was tried.
func dial(ctx context.Context, o *Options, addrs []netip.Addr, port uint16) (net.Conn, time.Time, []Attempt, error) {
	control, err := o.control()
	if err != nil {
		return nil, time.Time{}, nil, err
	}
	begin := time.Now()
	all, cancelAll := context.WithDeadline(ctx, begin.Add(o.ConnectTimeout))
	defer cancelAll()
	results := make(chan attempt, len(addrs)) // never blocks a dialler
	rows := make([]Attempt, 0, len(addrs))
	errs := make([]error, len(addrs))
	var won attempt
	running, next := 0, 0
	start := func() {
		i, a := next, addrs[next]
		next++
		running++
		rows = append(rows, Attempt{Addr: netip.AddrPortFrom(a, port).String(), At: millis.Of(time.Since(begin))})
		go func() { // ends with all, which the loop below waits for
			conn, err := dialOne(all, o, control, netip.AddrPortFrom(a, port))
			results <- attempt{i, conn, err, time.Now()}
		}()
	}
	start()
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	for running > 0 {
		select {
		case <-timer.C:
			if next < len(addrs) && won.conn == nil && all.Err() == nil {
				start()
				timer.Reset(attemptDelay)
			}
		case r := <-results:
			running--
			row := &rows[r.index]
			row.Elapsed = millis.Of(r.end.Sub(begin) - row.At.Duration())
			switch {
			case r.err == nil && won.conn == nil:
				won, row.Won = r, true
				cancelAll()
			case r.err == nil:
				_ = r.conn.Close()
				row.Error = "superseded"
			case won.conn != nil:
				row.Error = "superseded"
			default:
				errs[r.index] = r.err
				row.Error, row.Kind = bounded(r.err.Error(), maxText), kindOf(r.err)
				if next < len(addrs) && all.Err() == nil {
					start()
					timer.Reset(attemptDelay)
				}
			}
		}
	}
	if won.conn == nil {
		return nil, time.Time{}, rows, worst(errs)
	}
	return won.conn, won.end, rows, nil
}

// dialOne connects to one address.
func dialOne(ctx context.Context, o *Options, control controlFunc, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{
		Control:   control,
		KeepAlive: -1, // probes would be packets that nobody asked for
	}
	d.SetMultipathTCP(false)
	network := "tcp4"
	if to.Addr().Is6() {
		network = "tcp6"
	}
	if s := o.Source; s.IsValid() {
		if s.Unmap().Is4() != to.Addr().Is4() {
			return nil, &kindError{"unreachable", fmt.Errorf("source address %s is of the other family", s)}
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Unmap(), 0))
	}
	conn, err := d.DialContext(ctx, network, to.String())
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil { // the row names the address already
		err = op.Err
	}
	return conn, err
}

// worst picks the error that says most about the host when every address
// failed: an answer outranks silence, and silence a missing route, which is
// often just IPv6 on a host that has none.
func worst(errs []error) error {
	rank := map[string]int{"refused": 4, "reset": 3, "timeout": 2, "unreachable": 1}
	var out error
	best := -1
	for _, err := range errs {
		if err == nil {
			continue
		}
		if r := rank[kindOf(err)]; r > best {
			out, best = err, r
		}
	}
	if out == nil {
		return context.Canceled
	}
	return out
}

// controlFunc is net.Dialer's hook between socket and connect.
type controlFunc = func(network, address string, c syscall.RawConn) error
