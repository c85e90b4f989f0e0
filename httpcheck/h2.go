package httpcheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
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
	dec    *hpack.Decoder
	frame  int // largest frame the server takes, bytes

	maxHeader int // bytes of a header list

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
	// maxControlBytes bounds what is read for one response's head beside it.
	maxControlBytes = 1 << 20
	frameHeader     = 9
	frameSize       = 16 << 10 // RFC 9113 §4.2: the least and the default
)

// newH2 prepares the connection's preface, which travels with the first
// request.
func newH2(k *conn, maxHeader int64) *h2 {
	h := &h2{conn: k, frame: frameSize}
	h.framer = http2.NewFramer(&h.out, k.br)
	h.framer.SetMaxReadFrameSize(frameSize)
	h.maxHeader = int(min(maxHeader, 1<<30))
	h.dec = hpack.NewDecoder(4096, nil)
	h.dec.SetMaxStringLength(h.maxHeader)
	h.framer.SetReuseFrames()
	h.enc = hpack.NewEncoder(&h.block)
	h.out.WriteString(http2.ClientPreface)
	// Writes to a buffer do not fail.
	_ = h.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(h.maxHeader)},
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

// fields is a header or trailer.
type fields struct {
	status string
	header http.Header
	end    bool // of the stream
}

// fields decodes a header block, whose rest is in the frames that follow
// (RFC 9113 §4.3). The framer sees to their order.
func (h *h2) fields(f *http2.HeadersFrame) (*fields, error) {
	out := &fields{header: http.Header{}, end: f.StreamEnded()}
	size := 0
	h.dec.SetEmitFunc(func(hf hpack.HeaderField) {
		if size += int(hf.Size()); size > h.maxHeader {
			return
		}
		value := []byte(hf.Value)
		visible(value)
		switch {
		case hf.Name == ":status":
			out.status = string(value)
		case httpguts.ValidHeaderFieldName(hf.Name):
			out.header.Add(hf.Name, string(value))
		}
	})
	part, ended := f.HeaderBlockFragment(), f.HeadersEnded()
	for raw := 0; ; {
		// A frame costs even if it is empty.
		if raw += len(part) + frameHeader; raw > h.maxHeader {
			return nil, errHeaderSize
		}
		if _, err := h.dec.Write(part); errors.Is(err, hpack.ErrStringLength) {
			return nil, errHeaderSize
		} else if err != nil {
			return nil, err
		}
		if ended {
			break
		}
		next, err := h.framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		more, ok := next.(*http2.ContinuationFrame)
		if !ok {
			return nil, fmt.Errorf("a header that is not continued")
		}
		part, ended = more.HeaderBlockFragment(), more.HeadersEnded()
	}
	if size > h.maxHeader {
		return nil, errHeaderSize
	}
	return out, h.dec.Close()
}

// next reads one frame and deals with those that belong to no response; it
// returns nil for them, and otherwise *fields, *http2.DataFrame or
// *http2.RSTStreamFrame. The time is the arrival of the frame's first byte.
func (h *h2) next() (any, time.Time, error) {
	if _, err := h.conn.br.Peek(1); err != nil {
		return nil, time.Time{}, err
	}
	at := h.conn.arrived()
	f, err := h.framer.ReadFrame()
	if err != nil {
		return nil, at, err
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		if f.StreamID != h.stream {
			return nil, at, fmt.Errorf("a response that nobody asked for")
		}
		fs, err := h.fields(f)
		if err != nil {
			return nil, at, err
		}
		return fs, at, nil
	case *http2.DataFrame, *http2.RSTStreamFrame:
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
		case *fields:
			status, err := strconv.Atoi(f.status)
			if err != nil || status < 100 || status > 999 {
				return nil, &kindError{kind: "protocol", err: fmt.Errorf("invalid status %q", bounded(f.status, 20))}
			}
			if status < 200 && !f.end {
				if interim++; interim > maxInterim {
					return nil, orProtocol(errInterim)
				}
				continue
			}
			h.ended = f.end
			return &response{status: status, protocol: "HTTP/2", header: f.header, first: at, interim: interim}, nil
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
		case *fields: // trailers
			h.ended = f.end
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
