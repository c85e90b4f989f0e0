package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/whyslow/whyslow/internal/accesslog"
)

// logFigures are what it costs to read an access log and to count its clients.
type logFigures struct {
	lines, addresses int
	bytes            int64
	exact            bool // every address was counted
	// read is the time of reading alone, counted of reading and counting.
	read, counted time.Duration
	// memory is all that this process has taken from the system; of the log
	// only in a process that does nothing else.
	memory int64
}

// rate is bytes a second, in MB.
func (f logFigures) rate() float64 { return float64(f.bytes) / 1e6 / f.read.Seconds() }

// perLine is what a line costs to read.
func (f logFigures) perLine() time.Duration { return f.read / time.Duration(max(f.lines, 1)) }

// logClient is what a tally keeps of a client in this measurement: as much as
// pricing needs.
type logClient struct {
	requests, connections uint64
	last                  int64
}

// measureLog reads a log twice, on one processor: first only reading, then
// counting the requests of every client. The file is in the page cache by the
// second time at the latest; what the disk does is not of interest.
func measureLog(ctx context.Context, path string) (logFigures, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var f logFigures
	begin := time.Now()
	if _, err := readLog(ctx, path, nil); err != nil {
		return f, err
	}
	f.read = time.Since(begin)
	begin = time.Now()
	tally := accesslog.NewTally[logClient](0)
	stats, err := readLog(ctx, path, func(r *accesslog.Record) {
		if c := tally.At(r.Client); c != nil {
			now := r.Time.Unix()
			if c.requests == 0 || now-c.last > 15 { // a connection is kept alive no longer
				c.connections++
			}
			c.requests++
			c.last = now
		}
	})
	if err != nil {
		return f, err
	}
	f.counted = time.Since(begin)
	f.lines, f.bytes, f.addresses, f.exact = stats.Lines, stats.Bytes, tally.Len(), tally.Exact()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.memory = int64(m.Sys)
	if n := stats.BrokenLines(); n > 0 {
		return f, fmt.Errorf("%d of %d lines of %s were not read", n, stats.Lines, path)
	}
	return f, nil
}

// readLog hands every record to use, if there is one.
func readLog(ctx context.Context, path string, use func(*accesslog.Record)) (*accesslog.Stats, error) {
	r := accesslog.NewReader(ctx, accesslog.Options{}, accesslog.File(path))
	defer r.Close()
	var rec accesslog.Record
	for {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return r.Stats(), nil
		}
		if err != nil {
			return nil, err
		}
		if use != nil {
			use(&rec)
		}
	}
}

// writeLog writes a combined log of so many lines by so many clients, IPv4 and
// IPv6 in turn, who come in an order that no cache likes.
func writeLog(path string, lines, clients int) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing a log: %w", err)
	}
	w := bufio.NewWriterSize(file, 1<<20)
	var b []byte
	for i := range lines {
		b = logClientAddr(uint32(i * 7919 % clients)).AppendTo(b[:0])
		b = time.Unix(971211336+int64(i/50), 0).UTC().AppendFormat(b, " - - [02/Jan/2006:15:04:05 -0700] \"GET /articles/")
		b = strconv.AppendInt(b, int64(i%5000), 10)
		b = append(b, "/index.html HTTP/1.1\" 200 "...)
		b = strconv.AppendInt(b, int64(i%100000), 10)
		b = append(b, ` "https://www.example.com/list" "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"`+"\n"...)
		if _, err := w.Write(b); err != nil {
			_ = file.Close()
			return fmt.Errorf("writing a log: %w", err)
		}
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		return fmt.Errorf("writing a log: %w", err)
	}
	return nil
}

// logClientAddr is the nth of 2^25 clients.
func logClientAddr(n uint32) netip.Addr {
	if n%2 == 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 10<<24|n/2)
		return netip.AddrFrom4(a)
	}
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint32(a[4:], n%4096<<16)
	binary.BigEndian.PutUint32(a[12:], n)
	return netip.AddrFrom16(a)
}
