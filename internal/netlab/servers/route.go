package servers

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Fault is a way for a response to go wrong.
type Fault uint8

// The faults.
const (
	NoFault        Fault = iota
	EndlessBody          // the body never ends
	EndlessHeaders       // the header never ends (HTTP/1 only)
	GzipBomb             // a small body that grows without end when unpacked
	ResetEarly           // the connection is reset instead of an answer (HTTP/1 only)
	ResetBody            // the connection is reset in the middle of the body (HTTP/1 only)
	Hang                 // no answer ever
)

// Pace is how a body is written. The zero value is as fast as the connection
// takes it.
type Pace struct {
	Chunk int // bytes; zero means 1400
	Every time.Duration
}

// Rate is the pace of a constant rate in bytes per second.
func Rate(bytesPerSecond int) Pace {
	// Small chunks, but no more than 200 a second: timers are coarse.
	chunk := max(bytesPerSecond/200, 1)
	return Pace{Chunk: chunk, Every: time.Duration(float64(chunk) / float64(bytesPerSecond) * float64(time.Second))}
}

// Route is what the server does for one path.
type Route struct {
	// Status of the response. Zero means 200, with Redirect 302.
	Status int
	// Header is added to the response, as it is.
	Header http.Header
	// Body is the content; nil means Size bytes of text.
	Body []byte
	Size int64
	// Think passes before the response starts.
	Think time.Duration
	Pace  Pace
	// Redirect is the Location of a redirect.
	Redirect string
	// Lookup asks for the client's name before the response, as a CGI program
	// that gets REMOTE_HOST makes Apache httpd do.
	Lookup bool
	Fault  Fault
}

func (r Route) validate() error {
	if r.Think < 0 || r.Pace.Every < 0 || r.Pace.Chunk < 0 || r.Size < 0 {
		return errors.New("negative size or time")
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 999) {
		return fmt.Errorf("status %d", r.Status)
	}
	return nil
}

// control are the resources that every server has and that are always fast.
var control = map[string]Route{
	"/favicon.ico": {Body: []byte("\x00\x00\x01\x00"), Header: http.Header{"Content-Type": {"image/x-icon"}}},
	"/robots.txt":  {Body: []byte("User-agent: *\nDisallow:\n"), Header: http.Header{"Content-Type": {"text/plain"}}},
}

// nobody drops what net/http would log: clients that go away are what
// measuring is about.
func nobody() *log.Logger { return log.New(io.Discard, "", 0) }

// handle answers one request.
func (s *HTTP) handle(w http.ResponseWriter, r *http.Request) {
	s.active.RLock()
	defer s.active.RUnlock()
	s.requests.Add(1)
	conn := connOf(r)
	conn.waitForLog(r.Context())
	if s.cfg.Banner != "" {
		w.Header()["Server"] = []string{s.cfg.Banner}
	}
	route, ok := s.cfg.Routes[r.URL.Path]
	if !ok {
		if route, ok = control[r.URL.Path]; !ok {
			route = Route{Status: http.StatusNotFound, Body: []byte("not found\n")}
		}
	}
	if s.cfg.Lookup.When == BeforeResponse && route.Lookup {
		conn.lookup(r.Context())
	}
	if !pause(r.Context(), route.Think) {
		return
	}
	route.respond(r.Context(), w, r.Method == http.MethodHead)
	if s.cfg.Lookup.When == WhileLogging {
		conn.log(s.ctx)
	}
}

// respond writes the response.
func (r Route) respond(ctx context.Context, w http.ResponseWriter, head bool) {
	switch r.Fault {
	case Hang:
		<-ctx.Done()
		return
	case ResetEarly:
		resetResponse(w)
		return
	case EndlessHeaders:
		endlessHeaders(ctx, w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	for k, v := range r.Header {
		h[k] = v
	}
	status := r.Status
	if r.Redirect != "" {
		// Set raw: net/http would clean hostile locations.
		h["Location"] = []string{r.Redirect}
		if status == 0 {
			status = http.StatusFound
		}
	}
	if status == 0 {
		status = http.StatusOK
	}
	size := r.Size
	if r.Body != nil {
		size = int64(len(r.Body))
	}
	endless := r.Fault == EndlessBody || r.Fault == GzipBomb
	if !endless {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	if r.Fault == GzipBomb {
		h.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	if head {
		return
	}
	switch {
	case r.Fault == GzipBomb:
		_ = bomb(w)
	case r.Fault == EndlessBody:
		_ = r.Pace.write(ctx, w, filler, -1)
	case r.Fault == ResetBody:
		_ = r.Pace.write(ctx, w, r.content, size/2)
		_ = http.NewResponseController(w).Flush()
		resetResponse(w)
	default:
		_ = r.Pace.write(ctx, w, r.content, size)
	}
}

// content returns n bytes of the body from offset at.
func (r Route) content(at int64, n int) []byte {
	if r.Body == nil {
		return filler(at, n)
	}
	return r.Body[at : at+int64(n)]
}

var line = strings.Repeat("All work and no play makes the server a dull box.\n", 700)

// filler returns n bytes, at most 32 KiB, of text that begins at offset at.
func filler(at int64, n int) []byte {
	start := int(at % 50) // the length of a line
	return []byte(line[start : start+n])
}

// write writes size bytes of content at the pace; without end if size is
// negative.
func (p Pace) write(ctx context.Context, w http.ResponseWriter, content func(int64, int) []byte, size int64) error {
	flush := http.NewResponseController(w)
	chunk := 32 << 10
	if p.Every > 0 {
		if chunk = p.Chunk; chunk == 0 {
			chunk = 1400
		}
		chunk = min(chunk, 32<<10)
	}
	begin := time.Now()
	for at, i := int64(0), 0; size < 0 || at < size; i++ {
		if !pause(ctx, time.Until(begin.Add(time.Duration(i)*p.Every))) {
			return ctx.Err()
		}
		n := chunk
		if size >= 0 {
			n = int(min(int64(n), size-at))
		}
		if _, err := w.Write(content(at, n)); err != nil {
			return err
		}
		if p.Every > 0 {
			if err := flush.Flush(); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return nil
}

// resetResponse resets the connection of a response.
func resetResponse(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: net/http resets the stream
	}
	reset(c)
}

// endlessHeaders writes header lines until the client has had enough.
func endlessHeaders(ctx context.Context, w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	// net/http forgets a hijacked connection, the end of the server must not.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		_ = c.Close()
	}()
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"); err != nil {
		return
	}
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(c, "X-Header-%d: %s\r\n", i, strings.Repeat("dull ", 200)); err != nil {
			return
		}
	}
}

// bomb writes gzip members (RFC 1952 2.2) of a megabyte of nothing each, until
// the client has had enough.
func bomb(w io.Writer) error {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	for {
		if _, err := w.Write(member.Bytes()); err != nil {
			return err
		}
	}
}
