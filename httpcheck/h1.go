package httpcheck

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// h1 is one request and its response in HTTP/1.1 (RFC 9112).
type h1 struct {
	conn   *conn
	method string
	br     *bufio.Reader // what resp is read from
	resp   *http.Response
}

func (r *h1) encode(rq *request) ([]byte, error) {
	u := *rq.url
	u.User = nil
	if rq.star {
		u = url.URL{Scheme: u.Scheme, Host: u.Host, Path: "*"}
	}
	hr := &http.Request{
		Method: rq.method, URL: &u, Host: rq.host, Header: rq.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	var b bytes.Buffer // one write, one segment
	if err := hr.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// head reads up to the final response's header. 100, 102 and 103 are no
// answer yet (RFC 9110 §15.2); 101 is, as it ends HTTP.
func (r *h1) head() (*response, error) {
	k := r.conn
	for interim := 0; ; interim++ {
		if interim > maxInterim {
			return nil, orProtocol(errInterim)
		}
		if _, err := k.br.Peek(1); err != nil {
			return nil, err
		}
		first := k.arrived()
		raw, err := readHead(k.br)
		if err != nil {
			return nil, err
		}
		// The parser gets the header first and the body's bytes after it, so
		// it reads ahead no further than the body goes.
		r.br = bufio.NewReader(io.MultiReader(bytes.NewReader(raw), k.br))
		resp, err := http.ReadResponse(r.br, &http.Request{Method: r.method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		r.resp = resp
		chunked := len(resp.TransferEncoding) > 0
		return &response{
			status:   resp.StatusCode,
			protocol: fmt.Sprintf("HTTP/%d.%d", resp.ProtoMajor, resp.ProtoMinor),
			header:   resp.Header,
			first:    first,
			interim:  interim,
			toEOF:    resp.ContentLength < 0 && !chunked && resp.Body != http.NoBody,
		}, nil
	}
}

// readHead reads a status line and header up to the empty line, with control
// characters in them replaced. They have no place there (RFC 9110 §5.5), but a
// page whose Server header holds one is measured by its users all the same.
func readHead(br *bufio.Reader) ([]byte, error) {
	const magic = "HTTP/"
	if start, err := br.Peek(len(magic)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	} else if string(start) != magic {
		some, _ := br.Peek(min(br.Buffered(), 40))
		return nil, orProtocol(fmt.Errorf("the answer is not HTTP; it begins with %q", some))
	}
	var head []byte
	for line := 0; ; {
		part, err := br.ReadSlice('\n')
		head = append(head, part...)
		switch {
		case err == bufio.ErrBufferFull:
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(bytes.TrimRight(head[line:], "\r\n")) == 0:
			return head, nil
		default:
			end := len(bytes.TrimRight(head[line:], "\r\n"))
			visible(head[line : line+end])
			line = len(head)
		}
	}
}

// visible replaces control characters by question marks.
func visible(b []byte) {
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = '?'
		}
	}
}

func (r *h1) body(limit int64) (int64, error) {
	k := r.conn
	if r.resp.StatusCode == http.StatusSwitchingProtocols {
		return 0, nil // what follows is not HTTP; the connection stays dead
	}
	n, err := discard(r.resp.Body, limit)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && r.resp.ContentLength >= 0 {
			err = &kindError{kind: "closed", err: fmt.Errorf("the connection ended after %d of %d bytes", n, r.resp.ContentLength)}
		}
		return n, err
	}
	// Bytes beyond the response would be taken for the next one.
	k.dead = r.resp.Close || k.br.Buffered() > 0 || r.br.Buffered() > 0
	return n, nil
}

// discard reads r to its end, or past limit bytes, whence errBodySize.
func discard(r io.Reader, limit int64) (int64, error) {
	buf := make([]byte, discardBuffer)
	var n int64
	for {
		// One byte more than the limit tells a body of just that size from a
		// longer one.
		p := buf[:min(int64(len(buf)), limit-n+1)]
		m, err := r.Read(p)
		n += int64(m)
		switch {
		case n > limit:
			return limit, errBodySize
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}
