package httpcheck

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2 is the client side of one HTTP/2 connection (RFC 9113) that carries one
// request at a time. A general client reads in a goroutine of its own and
// hands over; here frames are read where they are timed.
type h2 struct {
	conn   *conn
	framer *http2.Framer
	out    bytes.Buffer // frames to be written with the next request
	enc    *hpack.Encoder
	block  bytes.Buffer // the encoder's output
	frame  int          // largest frame the server takes, bytes

	stream uint32 // the current request's
	method string
	ended  bool // the server ended the stream
	// consumed counts body bytes since the windows were last refilled.
	consumed int
	control  int // control frames since the request was sent
	goaway   bool
}

const (
	// window is what we let the server send unasked, per stream and
	// connection, so that flow control never slows the transfer measured.
	window = 1 << 30
	// maxControl bounds the frames that carry no response, per request.
	maxControl = 10000
	frameSize  = 16 << 10 // RFC 9113 §4.2: the least and the default
)

// newH2 prepares the connection's preface, which travels with the first
// request.
func newH2(k *conn, maxHeader int64) *h2 {
	h := &h2{conn: k, frame: frameSize}
	h.framer = http2.NewFramer(&h.out, k.br)
	h.framer.SetMaxReadFrameSize(frameSize)
	h.framer.MaxHeaderListSize = uint32(min(maxHeader, 1<<30))
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.framer.SetReuseFrames()
	h.enc = hpack.NewEncoder(&h.block)
	h.out.WriteString(http2.ClientPreface)
	// Writes to a buffer do not fail.
	_ = h.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: h.framer.MaxHeaderListSize},
	)
	_ = h.framer.WriteWindowUpdate(0, window)
	return h
}

func (h *h2) encode(rq *request) ([]byte, error) {
	if h.stream == 0 {
		h.stream = 1
	} else {
		h.stream += 2
	}
	h.method, h.ended, h.control = rq.method, false, 0
	h.block.Reset()
	path := rq.url.RequestURI()
	if rq.star {
		path = "*"
	}
	field := func(name, value string) { _ = h.enc.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	field(":method", rq.method)
	field(":scheme", rq.url.Scheme)
	field(":authority", rq.host)
	field(":path", path)
	for name, values := range rq.header {
		for _, v := range values {
			field(strings.ToLower(name), v)
		}
	}
	block := h.block.Bytes()
	part := block[:min(len(block), h.frame)]
	block = block[len(part):]
	_ = h.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: h.stream, BlockFragment: part, EndStream: true, EndHeaders: len(block) == 0,
	})
	for len(block) > 0 {
		part = block[:min(len(block), h.frame)]
		block = block[len(part):]
		_ = h.framer.WriteContinuation(h.stream, len(block) == 0, part)
	}
	raw := bytes.Clone(h.out.Bytes())
	h.out.Reset()
	return raw, nil
}

// next reads one frame and deals with those that belong to no response. It
// returns nil for them. The time is the arrival of the frame's first byte.
func (h *h2) next() (http2.Frame, time.Time, error) {
	if _, err := h.conn.br.Peek(1); err != nil {
		return nil, time.Time{}, err
	}
	at := h.conn.arrived()
	f, err := h.framer.ReadFrame()
	if err != nil {
		return nil, at, err
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame, *http2.DataFrame, *http2.RSTStreamFrame:
		if f.Header().StreamID == h.stream {
			return f, at, nil
		}
		// A late frame of an earlier stream, or of none: not ours.
		if d, ok := f.(*http2.DataFrame); ok {
			h.consumed += int(d.Length)
		}
	case *http2.SettingsFrame:
		err = h.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = h.framer.WritePing(true, f.Data)
			err = h.flush()
		}
	case *http2.GoAwayFrame:
		h.goaway = true
		if f.LastStreamID < h.stream {
			err = &kindError{kind: "closed", err: fmt.Errorf("the server refused the request (GOAWAY, %v)", f.ErrCode)}
		}
	case *http2.PushPromiseFrame:
		err = &kindError{kind: "protocol", err: fmt.Errorf("a push that was forbidden")}
	}
	if h.control++; err == nil && h.control > maxControl {
		err = orProtocol(errFlood)
	}
	return nil, at, err
}

func (h *h2) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingHeaderTableSize:
			h.enc.SetMaxDynamicTableSize(min(s.Val, 4096))
		case http2.SettingMaxFrameSize:
			if err := s.Valid(); err != nil {
				return err
			}
			h.frame = int(min(s.Val, 1<<20))
		}
		return nil
	})
	if err != nil {
		return err
	}
	_ = h.framer.WriteSettingsAck()
	return h.flush()
}

// flush writes the frames that were prepared.
func (h *h2) flush() error {
	_, err := h.conn.Write(h.out.Bytes())
	h.out.Reset()
	return err
}

func (h *h2) head() (*response, error) {
	for interim := 0; ; {
		f, at, err := h.next()
		if err != nil {
			return nil, err
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.Truncated {
				return nil, errHeaderSize
			}
			status, err := strconv.Atoi(f.PseudoValue("status"))
			if err != nil || status < 100 || status > 999 {
				return nil, &kindError{kind: "protocol", err: fmt.Errorf("invalid status %q", bounded(f.PseudoValue("status"), 20))}
			}
			if status < 200 && !f.StreamEnded() {
				if interim++; interim > maxInterim {
					return nil, orProtocol(errInterim)
				}
				continue
			}
			h.ended = f.StreamEnded()
			r := &response{status: status, protocol: "HTTP/2", header: http.Header{}, first: at, interim: interim}
			for _, field := range f.RegularFields() {
				r.header.Add(field.Name, field.Value)
			}
			return r, nil
		case *http2.DataFrame:
			return nil, &kindError{kind: "protocol", err: fmt.Errorf("a body before its header")}
		case *http2.RSTStreamFrame:
			return nil, reset(f)
		}
	}
}

func reset(f *http2.RSTStreamFrame) error {
	return &kindError{kind: "reset", err: fmt.Errorf("the server reset the stream (%v)", f.ErrCode)}
}

func (h *h2) body(limit int64) (int64, error) {
	var n int64
	for !h.ended {
		f, _, err := h.next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			n += int64(len(f.Data()))
			h.consumed += int(f.Length) // padding counts, RFC 9113 §6.1
			h.ended = f.StreamEnded()
			if n > limit {
				return limit, errBodySize
			}
			if err := h.refill(); err != nil {
				return n, err
			}
		case *http2.MetaHeadersFrame: // trailers
			h.ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			return n, reset(f)
		}
	}
	h.conn.dead = h.goaway || h.stream > 1<<30
	return n, nil
}

// refill opens the windows again, long before they close.
func (h *h2) refill() error {
	if h.consumed < window/4 {
		return nil
	}
	_ = h.framer.WriteWindowUpdate(0, uint32(h.consumed))
	if !h.ended {
		_ = h.framer.WriteWindowUpdate(h.stream, uint32(h.consumed))
	}
	h.consumed = 0
	return h.flush()
}
