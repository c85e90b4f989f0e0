package netlab

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/simnet"
)

const (
	// spin is how long before an event the driver stops sleeping and watches
	// the clock: about what a sleeping thread needs to run again.
	spin = 40 * time.Microsecond
	// batch bounds how many packets are read from one end in a row, so that a
	// flood from one end does not delay the events of the others.
	batch = 32
	// niceness of the driver's thread where the host grants it.
	niceness = -15
)

// port is where packets of one end leave and enter its kernel. All methods are
// called by the driver's thread alone once it runs, never block, and allocate
// nothing.
type port interface {
	// next returns the next IP packet the end's kernel sent, or nil. It is
	// valid until the following call.
	next() []byte
	// write hands an IP packet to the end's kernel, and reports whether that
	// took it.
	write(pkt []byte) bool
	close() error
}

// attachment is one end's port with the host of the model behind it.
type attachment struct {
	node simnet.NodeID
	port port
}

// driver moves packets between the ends' kernels and the model at the time the
// model wants. All its work is done by one thread that Go's scheduler keeps
// its hands off as far as possible: Go's timers come a millisecond late, and
// its poller goes through two threads.
type driver struct {
	net     *simnet.Net
	carrier Carrier
	wires   *Namespace // far sides of veth pairs; nil with TUN
	ends    []attachment
	fds     []unix.PollFd // one an end, then wake
	wake    int           // eventfd
	calls   chan func(*simnet.Net)
	stop    chan struct{}
	ended   chan struct{} // nil until started
	procs   int           // GOMAXPROCS before

	in, out, dropped atomic.Uint64
	late             atomic.Int64
}

func newDriver(net *simnet.Net, c Carrier) (*driver, error) {
	d := &driver{net: net, carrier: c, calls: make(chan func(*simnet.Net), 16), stop: make(chan struct{})}
	var err error
	if d.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("netlab: eventfd: %w", err)
	}
	if c == Veth {
		if d.wires, err = newWires(); err != nil {
			return nil, errors.Join(err, unix.Close(d.wake))
		}
	}
	return d, nil
}

// attach connects an end's kernel to its host in the model.
func (d *driver) attach(ns *Namespace, e End) error {
	index := len(d.ends)
	device, p, fd, err := connect(ns, d.wires, e, index)
	if err != nil {
		return err
	}
	d.ends = append(d.ends, attachment{e.Node, p})
	d.fds = append(d.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	if err := configure(ns, e, device); err != nil {
		return err
	}
	if d.wires != nil {
		if err := settlePair(ns, d.wires, device, index); err != nil {
			return err
		}
	}
	d.net.Attach(e.Node, func(_ time.Time, pkt []byte) {
		if p.write(pkt) {
			d.out.Add(1)
		} else {
			d.dropped.Add(1)
		}
	})
	return nil
}

// start starts the thread.
func (d *driver) start() {
	d.fds = append(d.fds, unix.PollFd{Fd: int32(d.wake), Events: unix.POLLIN})
	d.ended = make(chan struct{})
	// A thread that wakes from a sleep needs a processor of Go's to run on,
	// and waits up to 10 ms for one if all are taken: give it one more.
	d.procs = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(d.procs + 1)
	go func() {
		defer close(d.ended)
		runtime.LockOSThread() // never unlocked: slack and niceness are its own
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // 0 is this thread
		d.run()
	}()
}

// run is the thread's loop.
func (d *driver) run() {
	for {
		now := time.Now()
		next, pending := d.net.Run(now)
		wait := time.Duration(-1)
		if pending {
			// Events that became due while others ran are done in the next
			// round, after a look at the ends.
			wait = max(next.Sub(now), 0)
		}
		if d.poll(wait) && d.read() {
			return
		}
		if pending {
			if late := time.Since(next); late > time.Duration(d.late.Load()) {
				d.late.Store(int64(late))
			}
		}
	}
}

// poll waits until an end has packets, which it reports, or until wait is
// over; forever if that is negative.
func (d *driver) poll(wait time.Duration) bool {
	if wait < 0 {
		return d.ppoll(nil, true)
	}
	due := time.Now().Add(wait)
	if wait > spin {
		ts := unix.NsecToTimespec(int64(wait - spin))
		if d.ppoll(&ts, true) {
			return true
		}
	}
	for {
		if d.ppoll(&unix.Timespec{}, false) {
			return true
		}
		if !time.Now().Before(due) {
			return false
		}
	}
}

// ppoll calls ppoll(2) and reports whether a descriptor is ready. A call that
// may block lets Go know; one that can't does without that overhead.
func (d *driver) ppoll(ts *unix.Timespec, blocks bool) bool {
	fds, n := unsafe.Pointer(&d.fds[0]), uintptr(len(d.fds))
	var ready uintptr
	var errno unix.Errno
	if blocks {
		ready, _, errno = unix.Syscall6(unix.SYS_PPOLL, uintptr(fds), n, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	} else {
		ready, _, errno = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(fds), n, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	}
	// The only error possible is EINTR: nothing is ready then.
	return errno == 0 && ready > 0
}

// read moves waiting packets into the model. It reports whether the driver is
// to stop.
func (d *driver) read() (stop bool) {
	for i := range d.ends {
		if d.fds[i].Revents == 0 {
			continue
		}
		if d.fds[i].Revents&unix.POLLIN == 0 {
			d.failed(i)
			continue
		}
		e := &d.ends[i]
		for range batch {
			pkt := e.port.next()
			if pkt == nil {
				break
			}
			d.in.Add(1)
			if unicast(pkt) {
				d.net.Send(e.node, time.Now(), pkt)
			}
		}
	}
	if d.fds[len(d.ends)].Revents == 0 {
		return false
	}
	var count [8]byte
	_, _ = unix.Read(d.wake, count[:])
	for {
		select {
		case f := <-d.calls:
			f(d.net)
			continue
		case <-d.stop:
			return true
		default:
			return false
		}
	}
}

// failed looks after an end whose descriptor reports an error and no packets:
// a device that was taken down, or is gone. Left alone it would wake the
// driver for ever.
func (d *driver) failed(i int) {
	if _, err := unix.GetsockoptInt(int(d.fds[i].Fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		d.fds[i].Fd = -1 // not a socket: the TUN device is gone
	}
}

// unicast reports whether a packet is for one host beyond the link. What a
// kernel says to its neighbourhood (router solicitations, multicast group
// reports) ends at the device, as the model has routed links only.
func unicast(pkt []byte) bool {
	switch {
	case len(pkt) >= 20 && pkt[0]>>4 == 4:
		return pkt[16] < 224
	case len(pkt) >= 40 && pkt[0]>>4 == 6:
		return pkt[24] != 0xff && (pkt[24] != 0xfe || pkt[25]&0xc0 != 0x80)
	}
	return false
}

// kick wakes the thread.
func (d *driver) kick() {
	one := [8]byte{1} // the kernel reads it in host order; any non-zero will do
	_, _ = unix.Write(d.wake, one[:])
}

// model runs f on the thread.
func (d *driver) model(f func(*simnet.Net)) error {
	done := make(chan struct{})
	call := func(n *simnet.Net) {
		defer close(done)
		f(n)
	}
	select {
	case d.calls <- call:
	case <-d.ended:
		return errClosed
	}
	d.kick()
	select {
	case <-done:
		return nil
	case <-d.ended:
		return errClosed
	}
}

func (d *driver) traffic() Traffic {
	return Traffic{
		In: d.in.Load(), Out: d.out.Load(), Dropped: d.dropped.Load(),
		Late: time.Duration(d.late.Load()),
	}
}

// close stops the thread and removes the ends' devices.
func (d *driver) close() error {
	if d.ended != nil {
		close(d.stop)
		d.kick()
		<-d.ended
		runtime.GOMAXPROCS(d.procs)
	}
	var errs []error
	for _, e := range d.ends {
		errs = append(errs, e.port.close())
	}
	if d.wires != nil {
		d.wires.close()
	}
	errs = append(errs, unix.Close(d.wake))
	return errors.Join(errs...)
}
