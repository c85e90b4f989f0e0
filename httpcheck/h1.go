package httpcheck

import (
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
		resp, err := http.ReadResponse(k.br, &http.Request{Method: r.method})
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
	k.dead = r.resp.Close || k.br.Buffered() > 0
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
